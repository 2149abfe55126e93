package doctor

import (
	"fmt"
	"io/fs"
	"math"
	"net"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/host"
)

// stamps reports for each interface that is up whether the kernel stamps its packets.
func (m Machine) stamps() []host.Finding {
	unknown := func(err error) []host.Finding {
		return []host.Finding{{Name: "kernel stamps", Verdict: host.Unknown,
			Detail: "list interfaces: " + err.Error()}}
	}
	interfaces, err := m.Interfaces()
	if err != nil {
		return unknown(err)
	}
	var able, unable, unasked []string
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 {
			continue
		}
		kinds, err := m.Stamps(i.Name)
		switch {
		case err != nil:
			unasked = append(unasked, fmt.Sprintf("%s (%v)", i.Name, err))
		case kinds.Transmit && kinds.Receive:
			able = append(able, i.Name)
		case kinds.Receive:
			unable = append(unable, i.Name+" (arriving packets only)")
		default:
			unable = append(unable, i.Name)
		}
	}
	var findings []host.Finding
	if len(able) > 0 {
		findings = append(findings, host.Finding{Name: "kernel stamps",
			Verdict: host.Fit, Detail: "in both directions: " + strings.Join(able, ", ")})
	}
	if len(unable) > 0 {
		findings = append(findings, host.Finding{
			Name: "kernel stamps", Verdict: host.Warning,
			Detail: "the driver does not stamp packets that leave: " + strings.Join(unable, ", ") +
				": bounds between nodes over it are wider by the time of a system call",
			Remedy: "probe over another interface, or use a driver that calls skb_tx_timestamp; " +
				"ethtool -T shows what a driver does",
		})
	}
	if len(unasked) > 0 {
		findings = append(findings, host.Finding{
			Name: "kernel stamps", Verdict: host.Unknown, Detail: "the kernel does not say: " +
				strings.Join(unasked, ", "),
			Remedy: "relate two nodes over it: cprof relation show says which stamps were used",
		})
	}
	if len(findings) == 0 {
		return unknown(fmt.Errorf("none is up"))
	}
	return findings
}

// realtime reports what adjusts CLOCK_REALTIME, the clock of kernel stamps.
func (m Machine) realtime() host.Finding {
	f := host.Finding{Name: "realtime"}
	d, err := m.Discipline()
	if err != nil {
		f.Verdict, f.Detail, f.Remedy = host.Unknown, err.Error(), "without adjtimex kernel "+
			"stamps are not used: allow it in the container's seccomp profile"
		return f
	}
	t, err := m.ClockStatus()
	if err != nil {
		f.Verdict, f.Detail = host.Unknown, err.Error()
		return f
	}
	f.Detail = fmt.Sprintf("steered by %+.3f ppm",
		float64(d.Frequency_ppm16)/65536+float64(d.Tick_us-10_000)*100)
	if d.Adjust_us != 0 || d.Offset_ns != 0 {
		f.Detail += fmt.Sprintf(", being slewed by %+d µs", d.Adjust_us+d.Offset_ns/1000)
	}
	switch {
	case d.PulsePerSecond:
		f.Verdict = host.Warning
		f.Detail += "; a pulse-per-second signal steers it, so nothing is known about the next " +
			"second: kernel stamps are not used"
		f.Remedy = "steer the clock with a daemon, not with the kernel's own loop"
	case t.Status&unix.STA_UNSYNC != 0:
		f.Verdict = host.Warning
		f.Detail += "; no daemon vouches for it. Bounds between nodes do not need one; UTC in " +
			"reports is as wrong as this clock is"
		f.Remedy = "run chronyd if UTC matters"
	default:
		f.Verdict = host.Fit
		f.Detail += fmt.Sprintf("; the daemon that steers it claims to be within %.3f ms of UTC",
			float64(t.Maxerror)/1000)
	}
	return f
}

// chrony reports what the NTP daemon claims about the clock. An agent stores such claims with each
// run. No bound depends on them.
func (m Machine) chrony() host.Finding {
	f := host.Finding{Name: "chrony", Verdict: host.Warning}
	claim, err := m.Chrony()
	if err != nil {
		f.Detail = err.Error() + ": runs cannot be compared with NTP; bounds between nodes do " +
			"not need it"
		f.Remedy = "run chronyd if you want to compare, or set chrony in cp-agent's " +
			"configuration to its address"
		return f
	}
	bound_ns, ok := claim.Bound_ns()
	if !ok {
		f.Detail = "chronyd answers but follows no source"
		f.Remedy = "chronyc sources says why"
		return f
	}
	f.Verdict = host.Fit
	f.Detail = fmt.Sprintf("claims to be within %.3f ms of UTC, at stratum %d",
		math.Ceil(float64(bound_ns)/1e3)/1e3, claim.Stratum)
	if claim.Source.IsValid() {
		f.Detail += ", following " + claim.Source.String()
	}
	return f
}

// sleep reports whether the machine may be suspended during a measurement, because suspending ends
// an epoch.
func (m Machine) sleep() host.Finding {
	f := host.Finding{Name: "sleep", Verdict: host.Fit}
	states, err := fs.ReadFile(m.Root, "sys/power/state")
	switch words := strings.Fields(string(states)); {
	case err != nil || len(words) == 0:
		f.Detail = "this kernel cannot suspend"
	case slices.Contains(words, "mem") || slices.Contains(words, "freeze") ||
		slices.Contains(words, "disk"):
		f.Verdict, f.Detail = host.Warning, "this machine can be suspended ("+
			strings.Join(words, ", ")+"): that ends the epoch, and a run with it"
		f.Remedy = "during a run: systemd-inhibit --what=sleep cprof run …"
	default:
		f.Detail = "the only states of sleep are " + strings.Join(words, ", ")
	}
	return f
}

// enoughFiles is enough for a few thousand rings, each of which needs one open file.
const enoughFiles = 4096

// files reports how many rings an agent can keep open.
func (m Machine) files() host.Finding {
	f := host.Finding{Name: "open files", Verdict: host.Fit}
	l, err := m.Limit(unix.RLIMIT_NOFILE)
	switch {
	case err != nil:
		f.Verdict, f.Detail = host.Unknown, err.Error()
	case l.Max < enoughFiles:
		f.Verdict, f.Detail = host.Warning,
			fmt.Sprintf("a process may open %d: an agent holds one for every ring", l.Max)
		f.Remedy = "raise it: LimitNOFILE= in the unit, --ulimit nofile= for a container"
	default:
		f.Detail = fmt.Sprintf("a process may open %d, of which an agent holds one for every ring",
			l.Max)
	}
	return f
}

// processors reports whether cores slow down or enter deep sleep states. Bounds then stay true, but
// get wider.
func (m Machine) processors() host.Finding {
	f := host.Finding{Name: "frequency scaling", Verdict: host.Fit}
	governors := map[string]int{}
	files, _ := fs.Glob(m.Root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	for _, name := range files {
		if text, err := fs.ReadFile(m.Root, name); err == nil {
			governors[strings.TrimSpace(string(text))]++
		}
	}
	if len(governors) == 0 {
		f.Detail = "the kernel does not scale the cores' frequency here; the counter does not " +
			"follow it in any case"
		return f
	}
	var parts []string
	for name, cores := range governors {
		parts = append(parts, fmt.Sprintf("%s on %d", name, cores))
	}
	slices.Sort(parts)
	f.Detail = fmt.Sprintf("governor %s %s", strings.Join(parts, ", "),
		map[bool]string{true: "core", false: "cores"}[len(files) == 1])
	if governors["performance"] < len(files) {
		f.Verdict = host.Warning
		f.Detail += ": a core that wakes slowly answers probes late, and programs are " +
			"slower at times"
		f.Remedy = "for a run: cpupower frequency-set -g performance"
	}
	return f
}
