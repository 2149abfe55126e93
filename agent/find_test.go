package agent

import (
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// The agent says first the facts that do not change, and then which channels programs have open,
// each once. Without a server it knows no other nodes.
func TestFacts(t *testing.T) {
	c := testConfig(t)
	c.Facts = []string{"role=worker"}
	a := startTest(t, c)
	open(t, c, "parser/start", handlers.Options{})
	open(t, c, "parser/start", handlers.Options{})
	last := open(t, c, "counter/end", handlers.Options{})
	want := []string{"role=worker", "channel=counter/end", "channel=parser/start"}
	facts := func() []string {
		t.Helper()
		if err := a.Flush(); err != nil { // the agent then knows all rings
			t.Fatal(err)
		}
		return a.facts()
	}
	if got := facts(); !slices.Equal(got, want) {
		t.Errorf("says %q, want %q", got, want)
	}
	last.Close()
	if got := facts(); !slices.Equal(got, append(want[:1:1], want[2])) {
		t.Errorf("says %q after the counter is closed", got)
	}
	local, err := Connect(c.Rings)
	if err != nil {
		t.Fatal(err)
	}
	if f, err := local.Find(t.Context(), "role=*"); err == nil ||
		!strings.Contains(err.Error(), "has no server") {
		t.Errorf("found %+v, %v", f, err)
	}
}
