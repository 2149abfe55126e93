package analysis

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// Progress is reported in order: first from 0 to a half while the logs are read, then from a half
// to 1 while events are joined. In either half, a signal stops the analysis, and the error wraps
// the signal.
func TestProgress(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(5, parent, "chain", 2, 20_000, 1_000_000); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "chain")
	type step struct {
		done float64
		what string
	}
	var steps []step
	analyze(t, dir, Options{Workers: 1, partitions: 3, Progress: func(done float64, what string) {
		steps = append(steps, step{done, what})
	}})
	words := []string{}
	for i, s := range steps {
		words = append(words, s.what)
		if i > 0 && s.done < steps[i-1].done {
			t.Errorf("%v after %v", s, steps[i-1])
		}
		if s.done > 0.5 && s.what == "reading logs" || s.done <= 0.5 && s.what == "joining tuples" {
			t.Errorf("%v: reading is the first half, and joining the second", s)
		}
	}
	joining := slices.Index(words, "joining tuples")
	if words = slices.Compact(words); !slices.Equal(words,
		[]string{"reading logs", "joining tuples", "done"}) {
		t.Fatalf("told %q", words)
	}
	if first := steps[joining-1].done; first < 0.4 || steps[len(steps)-2].done != 1 ||
		steps[len(steps)-1].done != 1 {
		t.Errorf("reading ends at %g, joining at %g, all at %g", first, steps[len(steps)-2].done,
			steps[len(steps)-1].done)
	}

	for _, during := range []string{"reading logs", "joining tuples"} {
		interrupted := errors.New("interrupt signal received")
		ctx, cancel := context.WithCancelCause(t.Context())
		last := ""
		_, err := Run(ctx, dir,
			Options{Workers: 1, partitions: 3, Progress: func(_ float64, what string) {
				if last = what; what == during {
					cancel(interrupted)
				}
			}})
		if !errors.Is(err, interrupted) || last != during {
			t.Errorf("a signal while %s: %v, and the last that was told is %s", during, err, last)
		}
		cancel(nil)
	}
}
