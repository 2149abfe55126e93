package doctor

import (
	"errors"
	"io/fs"
	"net"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cloudprofiler/cloudprofiler/host"
)

// The cases are what machines in clouds answer, according to the sources of their kernels: names of
// PTP clocks, clock sources and flags of interfaces.
func TestFurtherClocks(t *testing.T) {
	const sources = "sys/devices/system/clocksource/clocksource0/available_clocksource"
	software := StampKinds{Transmit: true, Receive: true, PHC: -1}
	hardware := StampKinds{Transmit: true, Receive: true, HardwareTransmit: true,
		HardwareReceive: true, PHC: 0}
	off := hardware
	off.NotTold = true
	receive := StampKinds{Receive: true, HardwareReceive: true, PHC: -1}
	for name, test := range map[string]struct {
		files map[string]string
		kinds StampKinds
		want  string
	}{
		"KVM": {map[string]string{
			"sys/class/ptp/ptp0/clock_name": "KVM virtual PTP\n",
			sources:                         "kvm-clock tsc acpi_pm\n",
		}, software, "/dev/ptp0, the host's clock by a call of KVM (ptp_kvm); the hypervisor's " +
			"clock page kvm-clock. No bound uses them"},
		"Hyper-V": {map[string]string{
			"sys/class/ptp/ptp0/clock_name": "hyperv\n",
			sources:                         "hyperv_clocksource_tsc_page tsc\n",
		}, software, "/dev/ptp0, the host's clock by Hyper-V; the hypervisor's clock page " +
			"hyperv_clocksource_tsc_page. No"},
		"a network interface with a clock": {map[string]string{
			"sys/class/ptp/ptp0/clock_name": "ena-ptp-05\n", sources: "tsc hpet\n",
		}, hardware, "hardware stamps of eth0 by ptp0; /dev/ptp0, the clock of a network " +
			"interface (ena-ptp-05). No"},
		"one that was not told to stamp": {nil, off,
			"hardware stamps of eth0 by ptp0 (off: hwstamp_ctl -i eth0 -t 1 -r 1). No"},
		"one that stamps what arrives": {nil, receive,
			"hardware stamps of eth0 (arriving packets only). No"},
		"VMClock": {map[string]string{"sys/class/ptp/ptp1/clock_name": "ptp_vmclock\n"}, software,
			"/dev/ptp1, the host's clock by VMClock. No"},
		"nothing": {map[string]string{sources: "tsc hpet acpi_pm\n"}, software, "none: "},
	} {
		m, files := faultlessMachine(), fstest.MapFS{}
		for name, text := range test.files {
			files[name] = &fstest.MapFile{Data: []byte(text)}
		}
		m.Root = fs.FS(files)
		m.Stamps = func(string) (StampKinds, error) { return test.kinds, nil }
		if f := m.furtherClocks(); f.Verdict != host.Fit ||
			!strings.HasPrefix(f.Detail, test.want) {
			t.Errorf("%s: %v %q, want %q", name, f.Verdict, f.Detail, test.want)
		}
		m.Interfaces = func() ([]net.Interface, error) { return nil, errors.New("no") }
		if f := m.furtherClocks(); f.Verdict != host.Fit ||
			strings.Contains(f.Detail, "hardware stamps of eth0") {
			t.Errorf("%s, without interfaces: %v %q", name, f.Verdict, f.Detail)
		}
	}
}
