package analysis

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Change is how a percentile of a span changed from one set of runs (the side before) to another
// (the side after).
type Change struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Kind    string  `json:"kind"`
	Origin  string  `json:"origin,omitempty"`
	Percent float64 `json:"percent"`

	// The percentile on each side is an interval in ns, because runs have different reference
	// nodes. It includes the uncertainty of the frequencies. If no run of a side has the
	// percentile, its ends are NaN: null in JSON.
	BeforeLo_ns float64 `json:"before_lo_ns"`
	BeforeHi_ns float64 `json:"before_hi_ns"`
	AfterLo_ns  float64 `json:"after_lo_ns"`
	AfterHi_ns  float64 `json:"after_hi_ns"`

	// BeforeRuns and AfterRuns are how many runs have the percentile. With several runs, the
	// intervals are those of the mean of the runs' percentiles.
	BeforeRuns int `json:"before_runs,omitempty"`
	AfterRuns  int `json:"after_runs,omitempty"`

	// Noise_ns is how far the difference moves by chance alone, at most, in 99 of 100 cases. It is
	// the larger of two estimates: one from the chance in the tuples of each run, and one from how
	// much the runs of one side differ. With one run on each side, only the first estimate exists.
	// The noise also allows for durations that are withheld or could not be computed. If the noise
	// is not known, it is infinite: null in JSON.
	Noise_ns float64 `json:"noise_ns"`

	// Needs says what would decide an undecided change. If neither more runs nor more tuples nor
	// narrower bounds would decide it, Why gives the reason. Why also gives the reason of a
	// withheld change.
	Needs *Needs `json:"needs,omitempty"`
	Why   string `json:"why,omitempty"`

	// Suspect is true if durations of a run on either side rest on a suspect relation. The change
	// is then an estimate.
	Suspect bool `json:"suspect"`

	Verdict Verdict `json:"verdict"`
}

// MarshalJSON writes what is not known as null.
func (c Change) MarshalJSON() ([]byte, error) {
	type plain Change
	known := func(v float64) *float64 {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
		return &v
	}
	return json.Marshal(struct {
		plain
		BeforeLo_ns *float64 `json:"before_lo_ns"`
		BeforeHi_ns *float64 `json:"before_hi_ns"`
		AfterLo_ns  *float64 `json:"after_lo_ns"`
		AfterHi_ns  *float64 `json:"after_hi_ns"`
		Noise_ns    *float64 `json:"noise_ns"`
	}{plain(c), known(c.BeforeLo_ns), known(c.BeforeHi_ns), known(c.AfterLo_ns),
		known(c.AfterHi_ns), known(c.Noise_ns)})
}

// Needs says what would decide a change in nine of ten cases, if the true difference is the one
// that was found. One of its fields is set.
type Needs struct {
	Runs   float64 `json:"runs,omitempty"`   // number of runs that are needed on each side
	Tuples float64 `json:"tuples,omitempty"` // by which factor each run needs more tuples
	// Bounds is true if only narrower intervals can decide the change. There are two cases: the
	// intervals of the two sides overlap, or they would overlap if there were more tuples, because
	// percentiles of many tuples are rounded.
	Bounds bool `json:"narrower_bounds,omitempty"`
}

// Verdict is how a change is judged.
type Verdict string

const (
	Faster Verdict = "faster" // faster by more than bounds and noise
	Slower Verdict = "slower" // slower by more than bounds and noise
	// the difference is within the noise, and the bounds cannot hide a larger one
	Same Verdict = "same"
	// bounds or noise are wider than the difference, or the durations are not those of the same
	// tuples
	Undecided Verdict = "undecided"
	Withheld  Verdict = "withheld" // no run of a side has the percentile
	Gone      Verdict = "gone"     // no run of the second side has the span
	New       Verdict = "new"      // no run of the first side has the span
)

// diffPercents are the percentiles that are compared.
var diffPercents = []float64{50, 99}

// Diff compares the answers about runs of one kind with those about runs of another, span by span.
// If only some runs of a side have a span, Diff uses these runs. The error says why the runs cannot
// be compared.
func Diff(before, after []*Answer) ([]Change, error) {
	all := slices.Concat(before, after)
	if len(before) == 0 || len(after) == 0 {
		return nil, errors.New("compare runs: there is none on one of the sides")
	}
	for _, a := range all {
		if a.Reference.FrequencyLo_hz <= 0 {
			return nil, fmt.Errorf("compare runs %q and %q: the frequency of node %q of run %q "+
				"is not known, so that cycles of the two cannot be compared", before[0].Run,
				after[0].Run, a.Reference.Node, a.Run)
		}
	}
	var changes []Change
	known := map[Change]bool{} // a key has only the fields that identify a span
	for _, a := range all {
		for _, l := range slices.Concat(a.Spans, a.EndToEnd) {
			c := Change{From: l.From, To: l.To, Kind: l.Kind, Origin: l.Origin}
			if !known[c] {
				known[c] = true
				changes = append(changes, changesOf(c, before, after)...)
			}
		}
	}
	return changes, nil
}

// changesOf compares the percentiles of a span.
func changesOf(c Change, before, after []*Answer) (changes []Change) {
	was, is := spansLike(c, before), spansLike(c, after)
	c.Why = whyUnlike(c, slices.Concat(before, after))
	if len(was) > 0 && len(is) > 0 {
		for _, c.Percent = range diffPercents {
			changes = append(changes, percentileChange(c, was, is))
		}
		return changes
	}
	c.forgetFigures()
	side := "second"
	if c.Verdict = Gone; len(was) == 0 {
		c.Verdict, side = New, "first"
	}
	if c.Why != "" {
		c.Verdict = Undecided
		c.Why = fmt.Sprintf("no run of the %s side has it, but %s", side, c.Why)
	}
	return []Change{c}
}

// forgetFigures marks all figures as not known.
func (c *Change) forgetFigures() {
	c.BeforeLo_ns, c.BeforeHi_ns = math.NaN(), math.NaN()
	c.AfterLo_ns, c.AfterHi_ns, c.Noise_ns = math.NaN(), math.NaN(), math.Inf(1)
}

// spanOf is a span with its run and the run's reference.
type spanOf struct {
	*Span
	run       string
	reference Reference
}

// spansLike finds the span that a change is about, in each run that has this span.
func spansLike(c Change, in []*Answer) (found []spanOf) {
	for _, a := range in {
		for _, spans := range [][]Span{a.Spans, a.EndToEnd} {
			for i := range spans {
				if l := &spans[i]; l.From == c.From && l.To == c.To && l.Kind == c.Kind &&
					l.Origin == c.Origin {
					found = append(found, spanOf{l, a.Run, a.Reference})
				}
			}
		}
	}
	return found
}

// percentileChange compares a percentile of a span in the runs before and after. If the durations
// are not those of the same tuples, c.Why says why; otherwise it is empty.
func percentileChange(c Change, before, after []spanOf) Change {
	b, whyBefore := sideOf(before, c.Percent)
	a, whyAfter := sideOf(after, c.Percent)
	c.forgetFigures()
	c.BeforeRuns, c.AfterRuns = len(b), len(a)
	c.Suspect = slices.ContainsFunc(slices.Concat(before, after), func(l spanOf) bool {
		return l.All.Suspect > 0
	})
	if len(b) > 0 {
		c.BeforeLo_ns, c.BeforeHi_ns = b.mean()
	}
	if len(a) > 0 {
		c.AfterLo_ns, c.AfterHi_ns = a.mean()
	}
	c.Why = cmp.Or(c.Why, whyBefore, whyAfter)
	if len(b) == 0 || len(a) == 0 {
		c.Verdict = Withheld
		return c
	}
	c.Noise_ns = noiseOf(b, a)
	c.judge(b, a)
	return c
}

// judge decides whether two sides differ. If durations are lacking, they may hide a difference, and
// the noise allows for that. If the change is undecided for this reason, Why says what is lacking.
func (c *Change) judge(b, a side) {
	switch lacking := cmp.Or(b.lackingRun(), a.lackingRun()); {
	case c.Why != "":
		c.Verdict = Undecided
	case math.IsInf(c.Noise_ns, 1):
		c.Verdict = Undecided
		c.Why = cmp.Or(lacking, b.tooFew(c.Percent), a.tooFew(c.Percent))
	case c.AfterHi_ns+c.Noise_ns < c.BeforeLo_ns:
		c.Verdict = Faster
	case c.AfterLo_ns-c.Noise_ns > c.BeforeHi_ns:
		c.Verdict = Slower
	case max(c.AfterHi_ns-c.BeforeLo_ns, c.BeforeHi_ns-c.AfterLo_ns) <= c.Noise_ns:
		c.Verdict = Same
	default:
		c.Verdict = Undecided
		if c.Why = lacking; c.Why == "" {
			c.Needs = needsOf(max(c.AfterLo_ns-c.BeforeHi_ns, c.BeforeLo_ns-c.AfterHi_ns), b, a)
		}
	}
}
