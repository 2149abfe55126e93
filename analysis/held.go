package analysis

import (
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Held is how values went that were held against the truth, which only a run of virtual nodes knows (Options.Truth).
type Held struct {
	Count   uint64 `json:"count"`   // values that were held against it
	Outside uint64 `json:"outside"` // whose interval does not hold it: must be 0 of what is proven

	// Used is how much of their bound the errors of the others used, in steps of a twentieth: an error is from the middle of the interval to
	// the truth.
	Used     [UsedSteps]uint64 `json:"used"`
	MostUsed float64           `json:"most_used"` // of 1; more where something is outside

	// True are the percentiles of the true durations; empty for what are no durations.
	True Percentiles `json:"true_percentiles,omitempty"`
}

// UsedSteps is how finely Held tells how much of a bound was used.
const UsedSteps = 20

// hold holds one interval against all that the truth can be.
func (h *Held) hold(s, truth tscratio.Span) {
	h.Count++
	// In half cycles, so that the middle is a whole number; unsigned, as two ends may lie 2^64 apart.
	width := uint64(s.Hi) - uint64(s.Lo)
	var used uint64 // of the width, in half cycles
	for _, t := range [2]int64{truth.Lo, truth.Hi} {
		below, above := uint64(t)-uint64(s.Lo), uint64(s.Hi)-uint64(t) // they add up to the width
		if t < s.Lo || t > s.Hi {
			h.Outside++
			beyond := above // of the far end
			if t < s.Lo {
				beyond = uint64(s.Hi) - uint64(t)
			} else {
				beyond = uint64(t) - uint64(s.Lo)
			}
			h.MostUsed = max(h.MostUsed,
				min((2*float64(beyond)-float64(width))/max(float64(width), 1), mostUsed))
			return
		}
		used = max(used, max(below, above)-min(below, above))
	}
	step := 0
	if width > 0 {
		hi, lo := bits.Mul64(used, UsedSteps)
		q := uint64(UsedSteps)
		if hi < width {
			q, _ = bits.Div64(hi, lo, width)
		}
		step = int(min(q, UsedSteps-1))
		h.MostUsed = max(h.MostUsed, float64(used)/float64(width))
	}
	h.Used[step]++
}

// mostUsed keeps what is far outside a number that everybody can read.
const mostUsed = 1e9

// Merge adds what came of other values. Percentiles of true durations stay as they are: they cannot be added.
func (h *Held) Merge(o *Held) {
	h.Count += o.Count
	h.Outside += o.Outside
	for i, n := range o.Used {
		h.Used[i] += n
	}
	h.MostUsed = max(h.MostUsed, o.MostUsed)
}

// UsedPercentile is how much of their bound that many of 100 used at the most, of 1, rounded up to a twentieth.
func (h *Held) UsedPercentile(percent float64) float64 {
	var inside, below uint64
	for _, n := range h.Used {
		inside += n
	}
	if inside == 0 {
		return 0
	}
	rank := rankOf(uint64(percent*1000), inside)
	for i, n := range h.Used {
		if below += n; rank < below {
			return min(float64(i+1)/UsedSteps, max(h.MostUsed, 0))
		}
	}
	return 1
}

// heldPart is what is true of a leg's durations between two nodes.
type heldPart struct {
	Held
	truths distribution
}

func (p *heldPart) merge(q *heldPart) {
	p.Held.Merge(&q.Held)
	p.truths.merge(&q.truths)
}

// held is that as an answer has it; nil: nothing is known.
func (p *heldPart) held() *Held {
	if p == nil {
		return nil
	}
	h := p.Held
	for i, s := range p.truths.percentiles(percents_milli) {
		h.True = append(h.True, Percentile{float64(percents_milli[i]) / 1000, intervalOf(s)})
	}
	return &h
}

// trueDuration is the true duration between readings of two nodes, in cycles of the reference.
func (in *input) trueDuration(a int, x uint64, b int, y uint64) (tscratio.Span, bool) {
	reference := in.nodes[in.clocks.reference].Name
	from, ok := in.options.Truth(in.nodes[a].Name, x, reference)
	to, ok2 := in.options.Truth(in.nodes[b].Name, y, reference)
	return tscratio.Span{Lo: int64(to.Lo - from.Hi), Hi: int64(to.Hi - from.Lo)}, ok && ok2
}

// hold holds the durations of a leg against the truth, where that is known.
func (in *input) hold(p *legPart, a, b int, spans []tscratio.Span, xs, ys []uint64) {
	if in.options.Truth == nil {
		return
	}
	for i, s := range spans {
		truth, ok := in.trueDuration(a, xs[i], b, ys[i])
		if !ok {
			continue
		}
		if p.held == nil {
			p.held = &heldPart{truths: distribution{most: p.most}}
		}
		p.held.hold(s, truth)
		p.held.truths.addAll([]tscratio.Span{truth})
	}
}

// heldInAll is how all durations of an answer went, and finds those that are not true.
func (in *input) heldInAll(a *Answer) *Held {
	if in.options.Truth == nil {
		return nil
	}
	all, suspect := new(Held), uint64(0)
	for _, legs := range [][]Leg{a.Legs, a.EndToEnd} {
		for _, l := range legs {
			if h := l.All.Held; h != nil {
				all.Merge(h)
				if h.Outside > 0 {
					suspect += l.All.Suspect
				}
			}
		}
	}
	if all.Outside > 0 {
		why := "an assumption is broken, or this is a defect"
		if suspect > 0 {
			why = "among them may be the estimates, which are no bounds; else an assumption is " +
				"broken, or this is a defect"
		}
		in.find(
			FindImpossible,
			"%d of %d durations do not hold the truth that the virtual nodes know: %s", all.Outside,
			all.Count, why)
	}
	return all
}
