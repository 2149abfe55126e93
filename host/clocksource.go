package host

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// clocksource is what the kernel makes its clocks from.
type clocksource struct {
	step_ns int64 // how much later than a reading of theirs the clocks may stand
	counter bool  // it is the node's counter, scaled
}

// clocksources is all that is known of clocksources. Linux gives the rates: drivers/clocksource,
// arch/x86/kernel.
var clocksources = map[string]clocksource{
	// The counter times a factor, rounded down to whole ns. In what steps the counter moves is its
	// quantum.
	"tsc":              {1, true},
	"arch_sys_counter": {1, true},

	// The counter as ns, which the hypervisor's factor rounds down once and the kernel's a second
	// time.
	"kvm-clock": {2, true},
	"xen":       {2, true},

	// 10 MHz, whatever the counter behind it does.
	"hyperv_clocksource_tsc_page": {101, true},
	"hyperv_clocksource_msr":      {101, true},
	"hyperv_clocksource":          {101, true},

	"hpet":    {101, false}, // at least 10 MHz by its specification
	"acpi_pm": {281, false}, // 3.579545 MHz
}

// coarsestStep_ns is the periodic tick's: the longest that any clock stands still.
const coarsestStep_ns = 10_000_001

// ClockStep_ns returns how much later than a reading of theirs the kernel's clocks may stand, and
// whether that is known of a clocksource. If not, it is taken for the periodic tick.
func ClockStep_ns(name string) (step_ns int64, known bool) {
	if c, ok := clocksources[name]; ok {
		return c.step_ns, true
	}
	return coarsestStep_ns, false
}

// FromCounter says whether clocks that the kernel makes from a clocksource are the counter itself,
// scaled.
func FromCounter(name string) bool { return clocksources[name].counter }

// StampStep returns what says how much later than a stamp of the kernel's its clock may stand, or
// why such stamps prove nothing. It looks again whenever it is called: another clocksource can be
// chosen, and cores brought online, while programs run. Stamps are taken by whichever core takes
// the interrupt, so all that are online must be among the proven ones, which a Slack is of.
func StampStep(root fs.FS, proven []int) func() (step_ns uint32, err error) {
	release, _ := readText(root, "proc/sys/kernel/osrelease")
	never := checkRelease(release)
	cpus := "/" + path.Dir(onlineFile)
	if mounts, _ := readText(root, "proc/self/mountinfo"); never == nil && mountedOver(mounts, cpus) {
		// LXC shows a container the cores that it may use, as if there were no others.
		never = &noStamps{
			"something is mounted over " + cpus + ", so which cores may take them is not known",
			"show the kernel's own /sys to this process (LXC: no lxcfs there), or run it outside of the container",
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
				"how far the counters of these cores are off was not measured, and they may take them: " +
					listCores(unproven),
				"let this process run on all cores that are online (AllowedCPUs=), and start it again after one was " +
					"brought online",
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

// mountedOver says whether mountinfo, proc_pid_mountinfo(5), shows a mount in a directory.
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

// noStamps is why the kernel's stamps prove nothing on a machine.
type noStamps struct{ why, remedy string }

func (n *noStamps) Error() string { return "use kernel stamps: " + n.why + ": " + n.remedy }

// checkRelease refuses kernels that apply a frequency only at the tick after adjtimex has shown it.
// Linux does so at once since 4.19 ("timekeeping: Update multiplier when NTP frequency is set
// directly").
func checkRelease(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		why := fmt.Sprintf("the kernel's version %q cannot be read, and before 4.19 adjtimex is a tick ahead of the clock", release)
		return &noStamps{why, "show /proc to this process"}
	}
	if major < 4 || major == 4 && minor < 19 {
		why := fmt.Sprintf("in Linux %s adjtimex is a tick ahead of the clock", release)
		return &noStamps{why, "update the kernel to 4.19 or later"}
	}
	return nil
}

// stampsFinding says whether this machine's bounds rest on kernel stamps.
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
