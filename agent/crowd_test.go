package agent

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// beCrowded drains with few descriptors until it is killed.
func beCrowded(rings, state string) {
	must(unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 128, Max: 128}))
	_, err := Start(Config{Node: "node-1", Rings: rings, State: state, Chrony: ChronyOff})
	must(err)
	fmt.Println("draining")
	select {}
}

// A user's programs open more rings than the agent has descriptors for. It answers, opens runs and drains what it holds, and the
// others as soon as some are gone.
func TestMoreRingsThanDescriptors(t *testing.T) {
	const rings = 120
	s := newScene(t)
	var channels []*handlers.Channel
	for i := range rings {
		c, err := handlers.Open(fmt.Sprintf("a/x%d", i), handlers.Options{Dir: s.Rings, Policy: "drop", Buffer: "1KiB"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		logIDs(c, 0, 10)
		channels = append(channels, c)
	}
	s.Start("crowded", s.Rings, s.state)
	agent, err := Connect(s.Rings)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(what string, enough func(Status) bool) (now Status) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for {
			now, err = agent.Status(ctx)
			if err == nil && enough(now) {
				return now
			}
			if ctx.Err() != nil {
				t.Fatalf("%s: %v, %d channels, %d left, warnings %q", what, err, len(now.Channels), now.Left, now.Warnings)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	now := ask("it holds what it can", func(s Status) bool { return len(s.Channels)+s.Left == rings })
	if len(now.Channels) < 10 || len(now.Channels) > 128/3 || now.SetAside != 0 || len(now.Warnings) == 0 {
		t.Errorf("it holds %d of %d rings, set aside %d, warnings %q", len(now.Channels), rings, now.SetAside, now.Warnings)
	}
	run, err := agent.OpenRun(t.Context(), "crowded")
	if err != nil {
		t.Fatalf("open a run: %v", err)
	}
	for _, c := range channels {
		c.Close()
	}
	ask("all are drained", func(s Status) bool { return s.Finished == rings })
	if _, err := agent.CloseRun(t.Context(), "crowded"); err != nil {
		t.Fatalf("close the run: %v", err)
	}
	events := uint64(0)
	for _, dir := range []string{filepath.Join(s.state, span(0)), filepath.Join(run.Directory, "logs", "node-1")} {
		segments, err := logstore.Segments(dir)
		if err != nil {
			t.Fatal(err)
		}
		for len(segments) > 0 {
			one := logstore.SegmentsOf(segments, segments[0].Channel, segments[0].Incarnation)
			k, err := read(one)
			if err != nil {
				t.Error(err)
			}
			events, segments = events+k.events, segments[len(one):]
		}
	}
	if events != 10*rings {
		t.Errorf("%d events in logs, want %d", events, 10*rings)
	}
}
