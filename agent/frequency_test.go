package agent

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/host"
)

// For each run, the agent measures the mean frequency of the counter, with a reading at the run's
// begin and one at its end. Later queries get the same frequency. If the agent cannot measure the
// frequency, the run has no frequency, and the agent reports why.
func TestFrequencyOverARun(t *testing.T) {
	const second = 1_000_000_000
	seen := host.Observation{Boot: "b", Clocksource: "tsc"}
	seen.Bracket = host.Bracket{Open: 1000, Raw_ns: 77 * second, Close: 1050}
	var observing error
	var mu sync.Mutex
	var told []string
	c := testConfig(t)
	c.Epoch, c.Quantum_cycles, c.CoreSlack_cycles = "e", 26, 100
	c.Observe = func() (host.Observation, error) { return seen, observing }
	c.Notify = func(err error) { mu.Lock(); defer mu.Unlock(); told = append(told, err.Error()) }
	a := startTest(t, c)
	frequency := func(run string, closes bool) *control.Frequency {
		t.Helper()
		answer, err := a.Handle(t.Context(), &control.Run{Name: run, Close: closes})
		s, ok := answer.(*control.RunState)
		if err != nil || !ok {
			t.Fatalf("%+v, %v", answer, err)
		}
		return s.Frequency
	}
	if f := frequency("r", false); f != nil {
		t.Errorf("of a run that was just opened: %+v", f)
	}
	const hz, seconds = 2_600_000_000, 20
	seen.Bracket = host.Bracket{
		Open: 1050 + seconds*hz, Raw_ns: (77 + seconds) * second, Close: 1100 + seconds*hz,
	}
	f := frequency("r", true)
	if f == nil || f.Clock != "CLOCK_MONOTONIC_RAW over the run" || f.Lo_millihz > hz*1000 ||
		f.Hi_millihz < hz*1000 {
		t.Fatalf("%+v", f)
	}
	// Three things make the interval wide: brackets of 50 cycles, readings that may be off by 126
	// cycles, and a clock that moves in steps.
	if width := f.Hi_millihz - f.Lo_millihz; width < (50+2*126)*1000/seconds || width > 40_000 {
		t.Errorf("%d mHz wide", width)
	}
	if again := frequency("r", true); again == nil || *again != *f {
		t.Errorf("when it is asked again: %+v, want %+v", again, f)
	}
	for name, breaks := range map[string]func(){
		"another boot":   func() { seen.Boot += "'" },
		"another clock":  func() { seen.Clocksource += "'" },
		"at once":        func() {},
		"nothing to see": func() { observing = errors.New("no clock") },
	} {
		name = strings.ReplaceAll(name, " ", "-")
		mu.Lock()
		before := len(told)
		mu.Unlock()
		frequency(name, false)
		breaks()
		if f := frequency(name, true); f != nil {
			t.Errorf("%s: %+v", name, f)
		}
		observing = nil
		mu.Lock()
		more := told[before:]
		if len(more) != 1 || !strings.Contains(more[0], `frequency over run "`+name+`"`) {
			t.Errorf("%s: told %q", name, more)
		}
		mu.Unlock()
	}
}
