package coordinator

import (
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// If a program asks for dumps without end, the other nodes dump only once a second. After every
// request, even the last, they dump at least once more.
func TestSnapshotsOfAProgramAreLimited(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	for _, c := range f.clients {
		c.register.Capabilities = append(c.register.Capabilities, control.CanSnapshot)
		c.connect()
	}
	f.wantSweep(time.Minute)
	c := f.clients["n00"]
	for range 100 {
		for range 20 {
			c.send(0, &control.Snapshot{Channels: "parser/*", Reason: "slow"})
		}
		f.run(100*time.Millisecond, nil)
	}
	f.run(time.Second, nil)
	// Each of the other nodes dumps once a second for ten seconds, and once for the last request.
	for name, want := range map[string]int{"n00": 0, "n01": 11, "n02": 11} {
		if got := len(f.clients[name].snapshots); got != want {
			t.Errorf("%s was asked for %d dumps, want %d", name, got, want)
		}
	}
	f.run(5*time.Second, nil)
	f.clients["n01"].snapshots = nil
	for _, channels := range []string{"a", "b", "b"} {
		c.send(0, &control.Snapshot{Channels: channels})
	}
	f.run(5*time.Second, nil)
	got := f.clients["n01"].snapshots
	if len(got) != 2 || got[0].Channels != "a" || got[1].Channels != "b" {
		t.Errorf("dumps of a and b are ordered as %+v", got)
	}
	f.clients["n01"].snapshots = nil
	for _, channels := range []string{"a", "b", "c"} {
		c.send(0, &control.Snapshot{Channels: channels})
	}
	f.run(5*time.Second, nil)
	got = f.clients["n01"].snapshots
	if len(got) != 2 || got[0].Channels != "a" || got[1].Channels != "" {
		t.Errorf("dumps of a, b and c are ordered as %+v", got)
	}
}
