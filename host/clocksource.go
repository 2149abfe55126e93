package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// clocksource is the kernel's basis for its clocks.
type clocksource struct {
	step_ns int64 // the most by which the clocks may be ahead of what they show
	counter bool  // it is the node's counter, scaled
}

// clocksources lists the clocksources whose properties are known. The rates come from Linux:
// drivers/clocksource, arch/x86/kernel.
var clocksources = map[string]clocksource{
	// This is the counter times a factor, rounded down to whole ns. The quantum already includes
	// the counter's own steps.
	"tsc":              {1, true},
	"arch_sys_counter": {1, true},

	// This is the counter in ns, rounded down once by the hypervisor's factor and once by the
	// kernel's.
	"kvm-clock": {2, true},
	"xen":       {2, true},

	// This counts at 10 MHz, whatever the rate of the counter behind it.
	"hyperv_clocksource_tsc_page": {101, true},
	"hyperv_clocksource_msr":      {101, true},
	"hyperv_clocksource":          {101, true},

	"hpet":    {101, false}, // at least 10 MHz by its specification
	"acpi_pm": {281, false}, // 3.579545 MHz
}

// coarsestStep_ns is the step of the periodic tick: no clock stands still for longer.
const coarsestStep_ns = 10_000_001

// ClockStep_ns returns how far the kernel's clocks may be ahead of what they show, and whether this
// is known for the clocksource. For an unknown clocksource it returns the periodic tick.
func ClockStep_ns(name string) (step_ns int64, known bool) {
	if c, ok := clocksources[name]; ok {
		return c.step_ns, true
	}
	return coarsestStep_ns, false
}

// FromCounter reports whether the clocks that the kernel makes from a clocksource are the counter
// itself, scaled.
func FromCounter(name string) bool { return clocksources[name].counter }

// StampStep returns a function that returns how far the kernel's clock may be ahead of one of its
// stamps, or an error that explains why the kernel's stamps prove nothing. The function checks the
// machine at each call: while programs run, another clocksource can be chosen and cores can be
// brought online. The core that takes the interrupt also takes the stamp. So proven must contain
// all cores that are online; proven is the list Slack.Cores.
func StampStep(root fs.FS, proven []int) func() (step_ns uint32, err error) {
	release, _ := readText(root, "proc/sys/kernel/osrelease")
	never := checkRelease(release)
	cpus := "/" + path.Dir(onlineFile)
	mounts, _ := readText(root, "proc/self/mountinfo")
	if never == nil && mountedOver(mounts, cpus) {
		// LXC shows a container the cores that it may use, as if no other cores existed.
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

// mountedOver reports whether mountinfo, see proc_pid_mountinfo(5), lists a mount in a directory.
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

// noStamps explains why the kernel's stamps prove nothing on a machine.
type noStamps struct{ why, remedy string }

func (n *noStamps) Error() string { return "use kernel stamps: " + n.why + ": " + n.remedy }

// checkRelease refuses kernels that apply a frequency only at the tick after adjtimex has shown it.
// Since 4.19, Linux applies it at once ("timekeeping: Update multiplier when NTP frequency is set
// directly").
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
