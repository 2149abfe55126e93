package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// clocksource describes a hardware clock from which the kernel computes its own clocks.
type clocksource struct {
	step_ns int64 // the true time may be this much later than the kernel's clocks show
	counter bool  // the clocksource is the node's counter
}

// clocksources lists the clocksources whose properties are known. The clock rates, on which the
// steps depend, come from the source of Linux (drivers/clocksource, arch/x86/kernel). Each step_ns
// includes 1 ns, because the kernel rounds down to a nanosecond.
var clocksources = map[string]clocksource{
	// With these clocksources, the kernel reads the counter itself. step_ns does not include the
	// step in which the counter moves, because the quantum (type Quantum) covers that step.
	"tsc":              {1, true},
	"arch_sys_counter": {1, true},

	// These clocksources show the counter in nanoseconds. The hypervisor and the kernel each round
	// down to a nanosecond.
	"kvm-clock": {2, true},
	"xen":       {2, true},

	// These clocksources are computed from the counter, but they count at 10 MHz, whatever the
	// counter's rate.
	"hyperv_clocksource_tsc_page": {101, true},
	"hyperv_clocksource_msr":      {101, true},
	"hyperv_clocksource":          {101, true},

	"hpet":    {101, false}, // the specification requires at least 10 MHz
	"acpi_pm": {281, false}, // 3.579545 MHz
}

// coarsestStep_ns is the longest interval of the kernel's periodic tick. The kernel moves its
// clocks at least at every tick, so they stand still for at most this time.
const coarsestStep_ns = 10_000_001

// ClockStep_ns returns the most by which the kernel's clocks may be behind the true time. known
// says whether the clocksource is known. For an unknown clocksource, step_ns is coarsestStep_ns.
func ClockStep_ns(name string) (step_ns int64, known bool) {
	if c, ok := clocksources[name]; ok {
		return c.step_ns, true
	}
	return coarsestStep_ns, false
}

// FromCounter reports whether a kernel with this clocksource computes its clocks from the counter.
func FromCounter(name string) bool { return clocksources[name].counter }

// StampStep returns a function. That function returns the most by which a kernel's stamp may be
// earlier than the true time. If the kernel's stamps prove nothing, the returned function returns
// an error that explains why. The returned function examines the machine in each call, because
// somebody may choose another clocksource or bring cores online while programs run. Any core that
// is online may handle a network interrupt and take the stamp. So the argument proven, which is
// Slack.Cores, must contain all these cores.
func StampStep(root fs.FS, proven []int) func() (step_ns uint32, err error) {
	release, _ := readText(root, "proc/sys/kernel/osrelease")
	never := checkRelease(release)
	cpus := "/" + path.Dir(onlineFile)
	mounts, _ := readText(root, "proc/self/mountinfo")
	if never == nil && mountedOver(mounts, cpus) {
		// In an LXC container, this file may list only the container's cores, as if no other cores
		// existed.
		never = &noStamps{
			"something is mounted over " + cpus + ", so which cores may take them is not known",
			"show the kernel's own /sys to this process (LXC: no lxcfs there), " +
				"or run it outside of the container",
		}
	}
	return func() (uint32, error) {
		if never != nil {
			return 0, never
		}
		list, err := readText(root, onlineFile)
		var online []int
		if err == nil {
			online, err = parseCores(list)
		}
		if err != nil {
			return 0, &noStamps{"which cores may take them cannot be read: " + err.Error(), showSys}
		}
		proves := func(core int) bool { return slices.Contains(proven, core) }
		if unproven := slices.DeleteFunc(online, proves); len(unproven) > 0 {
			return 0, &noStamps{
				"how far the counters of these cores are off was not measured, " +
					"and they may take them: " + listCores(unproven),
				"let this process run on all cores that are online (AllowedCPUs=), " +
					"and start it again after one was brought online",
			}
		}
		name, err := readText(root, clocksourceDir+"current_clocksource")
		if err != nil {
			return 0, &noStamps{"the kernel's clocksource cannot be read: " + err.Error(), showSys}
		}
		step_ns, known := ClockStep_ns(name)
		if !known {
			why := fmt.Sprintf("in what steps the clocksource %q moves is not known", name)
			return 0, &noStamps{why, "choose another one in /" + clocksourceDir}
		}
		return uint32(step_ns), nil
	}
}

// mountedOver reports whether mountinfo lists a mount at or below a directory. For the format of
// mountinfo, see proc_pid_mountinfo(5).
func mountedOver(mountinfo, directory string) bool {
	for line := range strings.Lines(mountinfo) {
		fields := strings.Fields(line)
		if len(fields) > 4 && strings.HasPrefix(fields[4]+"/", directory+"/") {
			return true
		}
	}
	return false
}

const showSys = "show /sys to this process"

// noStamps is the error for a machine on which the kernel's stamps prove nothing.
type noStamps struct{ why, remedy string }

func (n *noStamps) Error() string { return "use kernel stamps: " + n.why + ": " + n.remedy }

// checkRelease refuses kernels before 4.19. If the frequency of the clock is changed, such a kernel
// shows the new frequency in adjtimex at once, but applies it only at the next tick. Since 4.19,
// Linux applies the new frequency at once, too ("timekeeping: Update multiplier when NTP frequency
// is set directly").
func checkRelease(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		why := fmt.Sprintf("the kernel's version %q cannot be read, "+
			"and before 4.19 adjtimex is a tick ahead of the clock", release)
		return &noStamps{why, "show /proc to this process"}
	}
	if major < 4 || major == 4 && minor < 19 {
		why := fmt.Sprintf("in Linux %s adjtimex is a tick ahead of the clock", release)
		return &noStamps{why, "update the kernel to 4.19 or later"}
	}
	return nil
}

// stampsFinding reports whether this machine's bounds may rest on kernel stamps.
func stampsFinding(root fs.FS, slack *Slack) Finding {
	const name = "clock of stamps"
	var proven []int
	if slack != nil {
		proven = slack.Cores
	}
	step_ns, err := StampStep(root, proven)()
	var no *noStamps
	if errors.As(err, &no) {
		detail := no.why + "; without kernel stamps bounds are as true, and ten times as wide"
		return Finding{name, Warning, detail, no.remedy}
	}
	detail := fmt.Sprintf("kernel stamps can be used, each to within %d ns of its clock", step_ns)
	return Finding{name, Fit, detail, ""}
}
