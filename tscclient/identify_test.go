package tscclient

import (
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/host"
)

// A counter may jump without leaving a trace for a later process. The epoch after the jump has a
// new name, and the next process uses that name, too.
func TestTheNextProcessKnowsOfAJump(t *testing.T) {
	// The HPET is a clock other than the counter. It does not jump with the counter, and so reveals
	// the jump.
	now := host.Observation{Boot: "a boot", Clocksource: "hpet"}
	jump := uint64(0)
	observe := func() (host.Observation, error) {
		now.Bracket.Raw_ns += 1_500_000_000
		now.Bracket.Open = uint64(now.Bracket.Raw_ns)*2 + jump
		now.Bracket.Close = now.Bracket.Open + 100
		return now, nil
	}
	var text []byte
	writes := 0
	kept := Kept{
		Read:  func() ([]byte, error) { return text, nil },
		Write: func(b []byte) { text, writes = b, writes+1 },
	}
	start := func() *Identity {
		t.Helper()
		id := &Identity{kept: kept}
		if err := id.watchEpoch(host.WatchOptions{Observe: observe}); err != nil {
			t.Fatal(err)
		}
		return id
	}
	look := func(id *Identity) string {
		t.Helper()
		epoch, err := id.Epoch()
		if err != nil {
			t.Fatal(err)
		}
		return epoch
	}

	first := start()
	before := first.Node.Epoch
	for range 3 {
		if epoch := look(first); epoch != before {
			t.Fatalf("epoch %q became %q", before, epoch)
		}
	}
	if len(text) != 0 {
		t.Fatalf("an epoch that any process can name is kept: %s", text)
	}
	jump = 1 << 40
	after := look(first)
	if after == before {
		t.Fatal("the jump is not seen")
	}
	second := start()
	if second.Node.Epoch != after || look(second) != after {
		t.Errorf("the next process is in epoch %q, want %q", second.Node.Epoch, after)
	}
	jump = 1 << 41 // the counter jumps while no process watches
	third := start()
	if third.Node.Epoch == after || third.Node.Epoch == before {
		t.Errorf("a jump between two processes is not seen: epoch %q", third.Node.Epoch)
	}
	if writes > 5 {
		t.Errorf("written %d times for two jumps", writes)
	}
	now.Boot = "another boot"
	fourth := start()
	if fourth.Node.Epoch == third.Node.Epoch || len(text) != 0 {
		t.Errorf("after a boot: epoch %q, kept %q", fourth.Node.Epoch, text)
	}
	text = []byte("{")
	if err := (&Identity{kept: kept}).watchEpoch(host.WatchOptions{Observe: observe}); err == nil {
		t.Error("damaged text is kept, and there is no error")
	}
}

// An epoch that a later release stored is refused. An epoch that an early release stored, without a
// version, is read.
func TestKeptEpochSaysItsVersion(t *testing.T) {
	for version, refused := range map[string]bool{"": false, `"version": 1,`: false,
		`"version": 2,`: true} {
		id := &Identity{kept: Kept{Read: func() ([]byte, error) {
			return []byte("{" + version + `"epoch": "b.s0.v-.nabc"}`), nil
		}}}
		err := id.watchEpoch(host.WatchOptions{Observe: func() (host.Observation, error) {
			return host.Observation{Boot: "b"}, nil
		}})
		if (err != nil && strings.Contains(err.Error(), "version 2")) != refused {
			t.Errorf("%q: %v", version, err)
		}
	}
}
