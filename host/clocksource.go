package host

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
)

// clocksource is what the kernel makes its clocks from.
type clocksource struct {
	step_ns int64 // how much later than a reading of theirs the clocks may stand
	counter bool  // it is the node's counter, scaled
}

// clocksources is all that is known of clocksources. Linux gives the rates: drivers/clocksource, arch/x86/kernel.
var clocksources = map[string]clocksource{
	// The counter times a factor, rounded down to whole ns. In what steps the counter moves is its quantum.
	"tsc":              {1, true},
	"arch_sys_counter": {1, true},

	// The counter as ns, which the hypervisor's factor rounds down once and the kernel's a second time.
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

// ClockStep_ns returns how much later than a reading of theirs the kernel's clocks may stand, and whether that is known
// of a clocksource. If not, it is taken for the periodic tick.
func ClockStep_ns(name string) (step_ns int64, known bool) {
	if c, ok := clocksources[name]; ok {
		return c.step_ns, true
	}
	return coarsestStep_ns, false
}

// FromCounter says whether clocks that the kernel makes from a clocksource are the counter itself, scaled.
func FromCounter(name string) bool { return clocksources[name].counter }

// StampStep returns what says how much later than a stamp of the kernel's its clock may stand, or why such stamps prove
// nothing. It looks again whenever it is called: another clocksource can be chosen, and cores brought online, while
// programs run. Stamps are taken by whichever core takes the interrupt, so all that are online must be among the proven
// ones, which a Slack is of.
func StampStep(root fs.FS, proven []int) func() (step_ns uint32, err error) {
	release, _ := readText(root, "proc/sys/kernel/osrelease")
	old := checkRelease(release)
	return func() (uint32, error) {
		if old != nil {
			return 0, old
		}
		list, err := readText(root, onlineFile)
		if err != nil {
			return 0, &noStamps{"which cores may take them cannot be read: " + err.Error(), "show /sys to this process"}
		}
		online, err := parseCores(list)
		if err != nil {
			return 0, &noStamps{"which cores may take them cannot be read: " + err.Error(), "update this program"}
		}
		unproven := slices.DeleteFunc(online, func(core int) bool { return slices.Contains(proven, core) })
		if len(unproven) > 0 {
			return 0, &noStamps{"how far the counters of these cores are off was not measured, and they may take them: " + listCores(unproven),
				"let this process run on all cores that are online (AllowedCPUs=), and start it again after one was brought online"}
		}
		name, err := readText(root, clocksourceDir+"current_clocksource")
		if err != nil {
			return 0, &noStamps{"the kernel's clocksource cannot be read: " + err.Error(), "show /sys to this process"}
		}
		step_ns, known := ClockStep_ns(name)
		if !known {
			return 0, &noStamps{fmt.Sprintf("in what steps the clocksource %q moves is not known", name), "choose another one in /" + clocksourceDir}
		}
		return uint32(step_ns), nil
	}
}

// noStamps is why the kernel's stamps prove nothing on a machine.
type noStamps struct{ why, remedy string }

func (n *noStamps) Error() string { return "use kernel stamps: " + n.why + ": " + n.remedy }

// checkRelease refuses kernels that apply a frequency only at the tick after adjtimex has shown it. Linux does so at
// once since 4.19 ("timekeeping: Update multiplier when NTP frequency is set directly").
func checkRelease(release string) error {
	var major, minor int
	if _, err := fmt.Sscanf(release, "%d.%d", &major, &minor); err != nil {
		return &noStamps{fmt.Sprintf("the kernel's version %q cannot be read, and before 4.19 adjtimex is a tick ahead of the clock", release),
			"show /proc to this process"}
	}
	if major < 4 || major == 4 && minor < 19 {
		return &noStamps{fmt.Sprintf("in Linux %s adjtimex is a tick ahead of the clock", release), "update the kernel to 4.19 or later"}
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
		return Finding{name, Warning, no.why + "; without them bounds are as true, and ten times as wide", no.remedy}
	}
	return Finding{name, Fit, fmt.Sprintf("kernel stamps can be used, each to within %d ns of its clock", step_ns), ""}
}
