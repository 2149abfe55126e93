package agents

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

var growing = []string{"SIZE", "120", "GROWN", "13s", "MEASURED", "6s", "CHURN", "0.02",
	"protocol.agents.sample", "20"}

// TestFleetRestarts continues a growing and dying fleet from checkpoints, each time with another
// number of workers. The fleet must print the same as without a break, and end in the same state.
func TestFleetRestarts(t *testing.T) {
	seed.NotUnderRace(t, "TestFleet runs the same code side by side")
	want, digest := runExample(t, 1, growing...)
	var text bytes.Buffer
	whole := buildExample(t, 1, &text, growing...)
	if err := whole.Start(); err != nil {
		t.Fatal(err)
	}
	type saved struct {
		printed int
		state   bytes.Buffer
	}
	var all []*saved
	err := whole.World.RunEach(context.Background(), 3_700e6, func() error {
		s := &saved{printed: text.Len()}
		all = append(all, s)
		return whole.World.WriteCheckpoint(&s.state, [32]byte{1})
	})
	if err != nil || text.String() != want {
		t.Fatalf("with checkpoints: %v\n%s\nwant\n%s", err, text.String(), want)
	}
	if len(all) < 4 {
		t.Fatalf("%d checkpoints", len(all))
	}
	for i, s := range all {
		var text bytes.Buffer
		again := buildExample(t, 1+i%3, &text, growing...)
		if err := again.World.Restore([32]byte{1}, &s.state); err != nil {
			t.Fatal(err)
		}
		if err := again.World.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		sum, err := again.World.Digest()
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%x", sum); got != digest || text.String() != want[s.printed:] {
			t.Errorf("from checkpoint %d with %d workers: digest %s, want %s\n%s\nwant\n%s", i,
				1+i%3, got, digest, text.String(), want[s.printed:])
		}
	}
}

// TestDamagedAgents reads states that are too short, or in which a byte is wrong. Each such state
// must be refused, or the simulation must run on with it. The simulation must not panic.
func TestDamagedAgents(t *testing.T) {
	s := buildExample(t, 1, io.Discard, "SIZE", "20", "GROWN", "6s", "MEASURED", "1s",
		"protocol.agents.sample", "5")
	if err := s.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	f := s.World.Protocol(0).(*Fleet)
	good := f.Encode(0, nil)
	decode := func(b []byte) error {
		f.Allocate(0)
		rest, err := f.Decode(0, b)
		if err == nil && len(rest) > 0 {
			return errors.New("bytes are left")
		}
		return err
	}
	if err := decode(good); err != nil || !bytes.Equal(f.Encode(0, nil), good) {
		t.Fatalf("the state differs: %v", err)
	}
	if err := decode(append([]byte{1}, good[1:]...)); err == nil ||
		!strings.Contains(err.Error(), "version 1") {
		t.Errorf("version 1: %v", err)
	}
	r := seed.Random(t)
	for range 300 {
		if err := decode(good[:r.IntN(len(good))]); err == nil {
			t.Fatal("half a state is no error")
		}
		b := bytes.Clone(good)
		b[2+r.IntN(len(b)/2)] ^= 1 << r.IntN(8)
		_ = decode(b) // must not panic
	}
}
