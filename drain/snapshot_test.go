package drain

import (
	"sync/atomic"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// A program can ask for a snapshot on any of its channels. For each request, the drainer writes
// every flight recorder once, and calls Options.Asked.
func TestProgramAsksForSnapshot(t *testing.T) {
	var told atomic.Int64
	rings, logs := t.TempDir(), t.TempDir()
	d, err := Start(rings, Options{Logs: logs, Node: "node-1", Asked: func() { told.Add(1) }})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	open := func(name, policy string) *handlers.Channel {
		c, err := handlers.Open(name, handlers.Options{Dir: rings, Policy: policy, Handler: "id"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	recorder, plain := open("recorder/x", "overwrite"), open("plain/x", "block")
	answered := func() bool {
		c, err := ring.OpenConsumer(plain.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		n, open, err := c.Asked()
		if err != nil {
			t.Fatal(err)
		}
		return n > 0 && !open
	}
	for id := range uint64(5) {
		recorder.Log(id)
	}
	for times := int64(1); times < 3; times++ {
		plain.Snapshot()
		testimony.WaitFor(t, "the answer", func() bool {
			return answered() && told.Load() == times
		})
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := told.Load(); n != 2 {
		t.Errorf("others were told %d times, want 2", n)
	}
	k := readLogs(t, logs)["recorder/x"]
	k.checkIntact(t)
	if k.countRows() != 5 {
		t.Errorf("%d events, want 5", k.countRows())
	}
}
