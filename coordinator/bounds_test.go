package coordinator

import (
	"strings"
	"testing"
	"time"
)

// In a large fleet, the server computes the bound of any pair on demand. The bound is true, and
// rests on measured pairs.
func TestBoundOfAnyPair(t *testing.T) {
	f := largeFleet(t, 18)
	f.wantGraph(time.Minute)
	f.run(time.Minute, func() bool { return f.core.sweep == nil && f.core.sweepBy.IsZero() })
	far := 0
	nodes := names(len(f.clients))
	for _, from := range nodes {
		for _, into := range nodes {
			if from == into {
				continue
			}
			a := answered[PairAnswer](t, f.ask(AskPair, PairRequest{from, into}))
			p := a.Pair
			x, y := f.clients[from], f.clients[into]
			at := time.Duration(float64(p.Reading_cycles-x.offset) / x.rate)
			if truth := y.counter(at); truth+2 < p.Lo_cycles || truth > p.Hi_cycles+2 {
				t.Errorf("%s into %s: [%d, %d], the truth is %d", from, into, p.Lo_cycles,
					p.Hi_cycles, truth)
			}
			if len(p.LoPath) > 2 && p.Direct_ns == 0 {
				far++
			}
			if len(a.Hops) == 0 || p.LoPath[0] != from || p.HiPath[len(p.HiPath)-1] != into {
				t.Errorf("%s into %s: %+v", from, into, a)
			}
			for _, h := range a.Hops {
				if h.Bound_ns == 0 || h.Verdict != "consistent" {
					t.Errorf("%s into %s rests on %+v", from, into, h)
				}
			}
		}
	}
	if far < 20 {
		t.Errorf("only %d pairs have no relation of their own", far)
	}
	for _, r := range []PairRequest{{"n00", "n00"}, {"n00", "stranger"}, {}} {
		if got := f.refused(AskPair, r); got == "" {
			t.Errorf("%v is answered", r)
		}
	}
}

// A pair is evaluated again only if it has new trains.
func TestPairsAreEvaluatedOnce(t *testing.T) {
	f := newFleet(t, testConfig(), names(3)...)
	f.wantSweep(time.Minute)
	f.ask(AskNodes, nil)
	before := map[pairKey]*evaluation{}
	for key, p := range f.core.pairs {
		before[key] = p.evaluated
	}
	f.ask(AskNodes, nil)
	for key, p := range f.core.pairs {
		if before[key] == nil || p.evaluated != before[key] {
			t.Errorf("%v is evaluated again", key)
		}
	}
	f.sweepAgain(SweepRequest{})
	f.wantTrue()
	f.ask(AskNodes, nil)
	for key, p := range f.core.pairs {
		if p.evaluated == before[key] {
			t.Errorf("%v is not evaluated again", key)
		}
	}
	// An answer about a pair may rest on an earlier evaluation, but not on one from a minute ago.
	old := answered[PairAnswer](t, f.ask(AskPair, PairRequest{"n00", "n01"}))
	f.sweepAgain(SweepRequest{})
	f.run(time.Minute, nil)
	now := answered[PairAnswer](t, f.ask(AskPair, PairRequest{"n00", "n01"}))
	if !now.At.After(old.At) || now.Pair.Trains <= old.Pair.Trains {
		t.Errorf("a minute later the answer is still of %v, %d trains", now.At, now.Pair.Trains)
	}
	if !strings.Contains(f.refused(AskPair, PairRequest{"n00", "n09"}), "not known") {
		t.Error("an unknown node is known")
	}
}
