package ring

import (
	"strings"
	"testing"
)

func TestReleaseTakesOnlyWhatIsThere(t *testing.T) {
	p := newRing(t)
	s := &p.Shards[0]
	for i := range uint64(MinRecords + 3) { // the last three are dropped
		putRecords(s, i, i)
	}
	c := drain(t, p.Path)
	if err := c.Release(0, 4, 0, 0); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name                 string
		head, drops, journal uint64
		say                  string
	}{
		{"head back", 3, 0, 0, "not between head 4 and tail 16"},
		{"head past the tail", 17, 0, 0, "not between head 4 and tail 16"},
		{"head far past the tail", 1<<64 - 1, 0, 0, "not between"},
		{"drops that were not", 4, 2, 0, "2 ranges of drops are not between 0 and 1"},
		{"journal that was not", 4, 0, 2, "2 journal entries are not between 0 and 1"},
	} {
		if err := c.Release(0, test.head, test.drops, test.journal); err == nil ||
			!strings.Contains(err.Error(), test.say) {
			t.Errorf("%s: %v, want %q", test.name, err, test.say)
		}
	}
	if got, err := c.State(0); err != nil || got.Head != 4 {
		t.Errorf("a refused release moved the head to %d (%v)", got.Head, err)
	}
	if err := c.Release(0, 16, 1, 1); err != nil {
		t.Fatal(err)
	}
	if err := c.Release(0, 16, 1, 1); err != nil {
		t.Errorf("the same again: %v", err)
	}
	if err := c.Release(0, 16, 0, 1); err == nil {
		t.Error("drops may go back")
	}
	if err := c.Release(0, 16, 1, 0); err == nil {
		t.Error("the journal may go back")
	}
	if s.Head() != 16 {
		t.Errorf("the program sees head %d", s.Head())
	}
}
