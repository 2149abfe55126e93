package host

import (
	"testing"
	"time"
)

// While Examine measures the slack, it also observes the counter's rate. So it then waits only for
// the rest of the time that measuring the rate needs.
func TestExamineWaitsOnlyForTheRest(t *testing.T) {
	for slack, want := range map[time.Duration]time.Duration{
		30 * time.Millisecond: 170 * time.Millisecond, time.Second: 100 * time.Millisecond,
	} {
		n := newNode()
		n.files = readFixture(t, "kvm_guest")
		waited := time.Duration(0)
		o := Options{Root: n.files, Features: invariant, Clocks: n.clocks(),
			Wait:   func(d time.Duration) { waited += d; n.wait(d) },
			OnCore: func(_ int, f func()) error { f(); return nil }}
		o.Slack.Cores, o.Slack.Budget = []int{0, 1}, time.Nanosecond
		o.Slack.Exchange = func(a, b, _ int, _ time.Duration) (forth, back Handover, err error) {
			n.wait(slack)
			return Handover{a, b, 1000, 1090}, Handover{b, a, 1000, 1090}, nil
		}
		if r := Examine(o); r.Frequency == nil || r.Verdict() == Unfit ||
			waited.Round(time.Millisecond) != want {
			t.Errorf("a slack of %v: waited %v, want %v\n%+v", slack, waited, want, r.Findings)
		}
	}
}
