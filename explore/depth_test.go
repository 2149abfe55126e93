package explore

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
)

// For each tuple that has a duration of a span, the function trulyBetween returns when the tuple
// truly passed the span's two points. These moments are readings of the first node. It returns nil
// if an id was logged twice at one of the points, because then the analysis must guess which events
// belong together.
func trulyBetween(j *simrun.Job, s *Span) (stays [][2]uint64) {
	reference := j.Nodes[0]
	reference.Quantum = 1
	ids := map[string]map[uint64]bool{s.From: {}, s.To: {}}
	for _, c := range j.Channels {
		actor, point, _ := strings.Cut(c.Name, "/")
		actor, _, _ = strings.Cut(actor, "#")
		logged := ids[actor+"/"+point]
		for _, r := range c.Records {
			if logged[r.ID] {
				return nil
			}
			if logged != nil {
				logged[r.ID] = true
			}
		}
	}
	for _, u := range j.Tuples {
		var at [2][]uint64
		for _, e := range u.Events {
			for i, point := range []string{s.From, s.To} {
				if e.Logged && e.Point == point {
					at[i] = append(at[i], reference.Reading(e.Time))
				}
			}
		}
		if len(at[0]) > 1 || len(at[1]) > 1 {
			return nil
		}
		if len(at[0]) == 1 && len(at[1]) == 1 {
			stays = append(stays, [2]uint64{at[0][0], at[1][0]})
		}
	}
	return stays
}

// The depth of a span is how many tuples are between its two points, as an interval. It contains
// the truth for each span of any job, even if jobs fork, join, make windows, lose events, or are
// sampled.
func TestDepthOfAnyJob(t *testing.T) {
	seed.NotUnderRace(t, "TestIndexIsMadeOnce makes an index too")
	spans, deepest := 0, 0
	for i := 0; i < 40 || spans < 100 && i < 400; i++ {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			rng := seed.Random(t)
			j := simrun.RandomJob(rng, rng.IntN(4) > 0)
			if j.Reused || j.Colliding {
				return
			}
			parent := t.TempDir()
			if err := simrun.Write(rng, parent, "job", j.Nodes, j.Channels); err != nil {
				t.Fatal(err)
			}
			x := preparedIndex(t, filepath.Join(parent, "job"),
				analysis.Options{Reference: j.Nodes[0].Name})
			for k := range x.Meta.Spans {
				n, most := depthsHold(t, rng, x, j, k)
				spans, deepest = spans+n, max(deepest, most)
			}
		})
	}
	if spans < 100 || deepest < 5 {
		t.Errorf("%d spans and at most %d tuples between two points: too little was tried", spans,
			deepest)
	}
}

// depthsHold compares the depths of a span with the truth. It returns 1 and the largest depth, or 0
// and 0 if the truth is not known.
func depthsHold(t *testing.T, rng *rand.Rand, x *Index, j *simrun.Job, k int) (int, int) {
	s := &x.Meta.Spans[k]
	for i := range x.Meta.Spans {
		if o := &x.Meta.Spans[i]; i != k && o.From == s.From && o.To == s.To {
			return 0, 0 // another span has the same points, so a tuple may belong to either
		}
	}
	stays := trulyBetween(j, s)
	if uint64(len(stays)) != s.Count || len(stays) == 0 {
		return 0, 0
	}
	most, whole := 0, x.whole()
	for _, limits := range [][2]int{{0, 0}, {queueNodes, queueBlocks}} {
		q := queueReader{index: x, track: x.span(k), cache: map[[2]int]*durations{},
			nodes: limits[0], blocks: limits[1]}
		for range 100 {
			at := whole.From + rng.Uint64N(whole.To-whole.From)
			lo, hi, err := q.countAt(at)
			if err != nil {
				t.Fatal(err)
			}
			// Readings are rounded to whole cycles. So a stay that begins or ends within 2 cycles
			// of the moment may be counted or not: both are right.
			least, greatest := uint64(0), uint64(0)
			for _, stay := range stays {
				least += uint64(number(stay[0]+2 <= at && at+2 < stay[1]))
				greatest += uint64(number(stay[0] <= at+2 && at < stay[1]+2))
			}
			if most = max(most, int(least)); lo > greatest || hi < least {
				t.Errorf("%s to %s: %d to %d tuples at %d, the truth is %d to %d (limits %v)",
					s.From, s.To, lo, hi, at, least, greatest, limits)
				return 1, most
			}
		}
	}
	return 1, most
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}
