package oscillator

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/host"
)

// Clocks returns the clocks that this machine has in addition to its counter, and the Kind of each.
// The caller closes the clocks. The second result names the clocks that are left out, each with the
// reason.
func Clocks() (clocks []Clock, left []string) {
	text, _ := os.ReadFile("/sys/devices/system/clocksource/clocksource0/current_clocksource")
	source := strings.TrimSpace(string(text))
	step, _ := host.ClockStep_ns(source)
	step_ns := uint64(step)
	raw := Clock{
		Name: "CLOCK_MONOTONIC_RAW", Kind: Independent, Step_ns: step_ns,
		Read: reader(unix.CLOCK_MONOTONIC_RAW),
		Why: fmt.Sprintf("the kernel counts with %q, which has another oscillator than "+
			"the counter", source),
	}
	switch {
	case source == "":
		raw.Kind, raw.Why = Same, "the kernel does not show what it counts with, so the "+
			"counter is assumed"
	case host.FromCounter(source):
		raw.Kind, raw.Why = Same,
			fmt.Sprintf("the kernel counts with %q, which is the counter itself, scaled", source)
	}
	clocks = append(clocks, raw)
	if steered, why := clockIsSteered(); steered {
		clocks = append(clocks, Clock{Name: "CLOCK_REALTIME", Kind: Steered, Step_ns: step_ns,
			Read: reader(unix.CLOCK_REALTIME), Why: why})
	} else {
		left = append(left, "CLOCK_REALTIME: "+why)
	}
	devices, _ := filepath.Glob("/dev/ptp*")
	for _, device := range devices {
		c, err := openPTP(device)
		if err != nil {
			left = append(left, err.Error())
			continue
		}
		clocks = append(clocks, c)
	}
	if len(devices) == 0 {
		left = append(left, "no PTP clock (/dev/ptp*): neither a network interface nor the "+
			"hypervisor offers one")
	}
	return clocks, left
}

func reader(clock int32) func() (int64, error) {
	return func() (int64, error) {
		var t unix.Timespec
		err := unix.ClockGettime(clock, &t)
		return t.Nano(), err
	}
}

// clockIsSteered reports whether something steers CLOCK_REALTIME, and what this means for a
// comparison.
func clockIsSteered() (bool, string) {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	switch {
	case err != nil:
		return false, fmt.Sprintf("adjtimex: %v", err)
	case state == unix.TIME_ERROR || t.Status&unix.STA_UNSYNC != 0:
		return false, "nothing steers it, so it shows the same as CLOCK_MONOTONIC_RAW"
	}
	return true, "the counter's oscillator, steered by NTP: corrections look like wander, and " +
		"slow wander is corrected away"
}

// openPTP opens a PTP hardware clock for reading.
func openPTP(device string) (Clock, error) {
	f, err := os.Open(device)
	if err != nil {
		return Clock{}, err
	}
	text, _ := os.ReadFile(filepath.Join("/sys/class/ptp", filepath.Base(device), "clock_name"))
	name := strings.TrimSpace(string(text))
	c := Clock{
		Name: device + " (" + name + ")", Kind: Independent, Step_ns: 50, Close: f.Close,
		Why: "a network interface's clock, with a crystal of its own, unless something steers it",
	}
	if strings.Contains(name, "KVM") || strings.Contains(name, "hyperv") ||
		strings.Contains(name, "vmclock") {
		c.Kind, c.Why = Steered, "the host's clock: the same machine's oscillator, steered "+
			"by the host"
	}
	c.Read = reader(int32(^int(f.Fd()))<<3 | 3) // FD_TO_CLOCKID, as clock_gettime(2) describes
	if _, err := c.Read(); err != nil {
		f.Close()
		return Clock{}, fmt.Errorf("%s: %w", device, err)
	}
	return c, nil
}
