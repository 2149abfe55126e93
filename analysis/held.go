package analysis

import (
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Held says how values compare with the truth. The truth is known only in a run of virtual nodes
// (Options.Truth).
type Held struct {
	Count uint64 `json:"count"` // values that were checked
	// values whose interval does not contain the truth: must be 0 for a proven method
	Outside uint64 `json:"outside"`

	// Used is a histogram of the values' errors, each as a share of the value's bound, in steps of
	// a twentieth. The error is the distance from the middle of the interval to the truth. Values
	// that Outside counts are left out.
	Used [UsedSteps]uint64 `json:"used"`
	// the largest error, as a share of its value's bound; above 1 if a value is outside
	MostUsed float64 `json:"most_used"`

	// True are the percentiles of the true durations; empty if the values are not durations.
	True Percentiles `json:"true_percentiles,omitempty"`
}

// UsedSteps is the number of steps of the histogram Held.Used.
const UsedSteps = 20

// checkTruth compares one interval with an interval that contains the truth.
func (h *Held) checkTruth(s, truth tscratio.Elapsed) {
	h.Count++
	// The error is counted in half cycles, so that the middle of the interval is a whole number.
	// All distances are unsigned, because the two ends may lie 2^64 apart.
	width := uint64(s.Hi) - uint64(s.Lo)
	var used uint64 // the larger error of the truth's two ends, in half cycles
	for _, t := range [2]int64{truth.Lo, truth.Hi} {
		below, above := uint64(t)-uint64(s.Lo), uint64(s.Hi)-uint64(t) // they add up to the width
		if t < s.Lo || t > s.Hi {
			h.Outside++
			beyond := above // from the interval's far end to the truth
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

// mostUsed caps Held.MostUsed, so that people can read the number.
const mostUsed = 1e9

// Merge adds the results for other values. It does not change the percentiles of true durations,
// because percentiles cannot be added.
func (h *Held) Merge(o *Held) {
	h.Count += o.Count
	h.Outside += o.Outside
	for i, n := range o.Used {
		h.Used[i] += n
	}
	h.MostUsed = max(h.MostUsed, o.MostUsed)
}

// UsedPercentile is a percentile of the errors in Used. Each error is a share of its value's bound,
// so 1 is the whole bound. The result is rounded up to a twentieth.
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

// heldPart compares a span's durations between two nodes with the truth.
type heldPart struct {
	Held
	truths distribution
}

func (p *heldPart) merge(q *heldPart) {
	p.Held.Merge(&q.Held)
	p.truths.merge(&q.truths)
}

// heldForAnswer converts the results for an answer. It returns nil if there are none.
func (p *heldPart) heldForAnswer() *Held {
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
func (in *input) trueDuration(a int, x uint64, b int, y uint64) (tscratio.Elapsed, bool) {
	reference := in.nodes[in.clocks.reference].Name
	from, ok := in.options.Truth(in.nodes[a].Name, x, reference)
	to, ok2 := in.options.Truth(in.nodes[b].Name, y, reference)
	return tscratio.Elapsed{Lo: int64(to.Lo - from.Hi), Hi: int64(to.Hi - from.Lo)}, ok && ok2
}

// checkTruth checks the durations of a span against the truth, if the truth is known.
func (in *input) checkTruth(p *spanPart, a, b int, elapsed []tscratio.Elapsed, xs, ys []uint64) {
	if in.options.Truth == nil {
		return
	}
	for i, s := range elapsed {
		truth, ok := in.trueDuration(a, xs[i], b, ys[i])
		if !ok {
			continue
		}
		if p.held == nil {
			p.held = &heldPart{truths: distribution{most: p.most}}
		}
		p.held.checkTruth(s, truth)
		p.held.truths.addAll([]tscratio.Elapsed{truth})
	}
}

// heldInAll sums up, over all durations in an answer, how they compare with the truth. It adds a
// finding if some intervals do not contain the truth.
func (in *input) heldInAll(a *Answer) *Held {
	if in.options.Truth == nil {
		return nil
	}
	all, suspect := new(Held), uint64(0)
	for _, spans := range [][]Span{a.Spans, a.EndToEnd} {
		for _, l := range spans {
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
			why = "some may be estimates, which are no bounds; otherwise an assumption is " +
				"broken, or this is a defect"
		}
		in.addFinding(
			FindImpossible,
			"%d of %d durations do not contain the truth that the virtual nodes know: %s",
			all.Outside, all.Count, why)
	}
	return all
}
