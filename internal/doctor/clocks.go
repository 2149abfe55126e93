package doctor

import (
	"fmt"
	"io/fs"
	"net"
	"path"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/host"
)

// ptpKinds has the PTP clocks that a hypervisor provides. The keys are the names that the drivers
// give in sysfs, and the values say what the clock is. All other PTP clocks belong to network
// interfaces.
var ptpKinds = map[string]string{
	"KVM virtual PTP": "the host's clock by a call of KVM (ptp_kvm)",
	"hyperv":          "the host's clock by Hyper-V",
	"ptp_vmclock":     "the host's clock by VMClock",
	"vmw":             "the host's clock by VMware",
}

// clockPages has the clock sources that read a page of memory written by a hypervisor.
var clockPages = []string{"kvm-clock", "hyperv_clocksource_tsc_page", "xen"}

// furtherClocks reports which clocks this machine offers in addition to its counter: stamps of
// network hardware, PTP clocks, and clock pages of a hypervisor. By default no bound uses them.
// Each can narrow bounds, but only under an assumption that nothing on this machine can prove: that
// other nodes read the same clock (package sharedclock).
func (m Machine) furtherClocks() host.Finding {
	f := host.Finding{Name: "further clocks", Verdict: host.Fit}
	var has []string
	if interfaces, err := m.Interfaces(); err == nil {
		for _, i := range interfaces {
			kinds, err := m.Stamps(i.Name)
			if err != nil || i.Flags&net.FlagUp == 0 || !kinds.HardwareReceive {
				continue
			}
			what := "hardware stamps of " + i.Name
			if !kinds.HardwareTransmit {
				what += " (arriving packets only)"
			}
			if kinds.PHC >= 0 {
				what += fmt.Sprintf(" by ptp%d", kinds.PHC)
			}
			if kinds.NotTold {
				what += fmt.Sprintf(" (off: hwstamp_ctl -i %s -t 1 -r 1)", i.Name)
			}
			has = append(has, what)
		}
	}
	clocks, _ := fs.Glob(m.Root, "sys/class/ptp/ptp*")
	for _, clock := range clocks {
		text, err := fs.ReadFile(m.Root, path.Join(clock, "clock_name"))
		if err != nil {
			continue
		}
		name := strings.TrimSpace(string(text))
		kind := ptpKinds[name]
		if kind == "" {
			kind = "the clock of a network interface (" + name + ")"
		}
		has = append(has, fmt.Sprintf("/dev/%s, %s", path.Base(clock), kind))
	}
	sources, _ := fs.ReadFile(m.Root,
		"sys/devices/system/clocksource/clocksource0/available_clocksource")
	for _, source := range strings.Fields(string(sources)) {
		if slices.Contains(clockPages, source) {
			has = append(has, "the hypervisor's clock page "+source)
		}
	}
	if len(has) == 0 {
		f.Detail = "none: no stamps of network hardware, no PTP clock, no clock page"
		return f
	}
	f.Detail = strings.Join(has, "; ") + ". No bound uses them unless you say what cannot be " +
		"proven here: see the keys shared_clock and hardware_stamps of cp-agent"
	return f
}
