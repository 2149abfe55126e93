package agent

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// First the agent lists the facts that do not change. Then it lists each channel that programs have
// open, only once. Without a server, it knows no other nodes.
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
		return a.nodeFacts()
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
	if h, err := local.Hot(t.Context(), HeatDropped); err == nil ||
		!strings.Contains(err.Error(), "has no server") {
		t.Errorf("hot are %+v, %v", h, err)
	}
}

// HeatDropped and HeatRingFill depend only on the rings that programs have open.
func TestHeats(t *testing.T) {
	rings := []drain.RingStats{
		{Alive: true, Dropped: 5, Waiting: 10, RingBytes: 1600},
		{Alive: true, Dropped: 6, Waiting: 30, RingBytes: 1600},
		{Alive: false, Dropped: 100, Waiting: 90, RingBytes: 1600},
		{Alive: true, Dropped: 100, Waiting: 90, RingBytes: 1600, SetAside: errNoServer},
	}
	want := map[string]uint64{HeatDropped: 11, HeatRingFill: 30}
	if got := heatsOf(rings); !maps.Equal(got, want) {
		t.Errorf("heats %v, want %v", got, want)
	}
	c := testConfig(t)
	a := startTest(t, c)
	open(t, c, "parser/start", handlers.Options{})
	if got := a.hotness(); got[HeatDropped] != 0 || len(got) != 2 {
		t.Errorf("heats %v", got)
	}
}
