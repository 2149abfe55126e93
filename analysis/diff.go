package analysis

import (
	"fmt"
	"math"
	"slices"
)

// Change is how a span's percentile changed from one run to another.
type Change struct {
	From    string  `json:"from"`
	To      string  `json:"to"`
	Kind    string  `json:"kind"`
	Origin  string  `json:"origin,omitempty"`
	Percent float64 `json:"percent"`

	// All in ns, because runs have different reference nodes. The intervals include the uncertainty
	// of the frequencies.
	BeforeLo_ns float64 `json:"before_lo_ns"`
	BeforeHi_ns float64 `json:"before_hi_ns"`
	AfterLo_ns  float64 `json:"after_lo_ns"`
	AfterHi_ns  float64 `json:"after_hi_ns"`

	// Noise_ns is how far the difference moves by chance in 99 of 100 cases. For one run that is
	// the distance from the percentile to the ends of its confidence interval, by ranks. The
	// chances of two runs are independent, so their squares add up.
	Noise_ns float64 `json:"noise_ns"`

	// Suspect is true if durations of either run rest on a suspect relation. The change is then an
	// estimate.
	Suspect bool `json:"suspect"`

	Verdict Verdict `json:"verdict"`
}

// Verdict is how a change is judged.
type Verdict string

const (
	Faster Verdict = "faster" // by more than bounds and noise
	Slower Verdict = "slower" // by more than bounds and noise
	// the difference is within the noise, and the bounds cannot hide a larger one
	Same      Verdict = "same"
	Undecided Verdict = "undecided" // bounds or noise are wider than the difference
	Gone      Verdict = "gone"      // the second run lacks the span
	New       Verdict = "new"       // the first run lacks the span
)

// diffPercents are the percentiles that are compared.
var diffPercents = []float64{50, 99}

// Diff compares two answers, span by span. The error says why they cannot be compared.
func Diff(before, after *Answer) ([]Change, error) {
	for _, a := range []*Answer{before, after} {
		if a.Reference.FrequencyLo_hz <= 0 {
			return nil, fmt.Errorf("compare runs %q and %q: the frequency of node %q of run %q "+
				"is not known, so that cycles of the two cannot be compared", before.Run, after.Run,
				a.Reference.Node, a.Run)
		}
	}
	var changes []Change
	spans := func(a *Answer) []Span { return slices.Concat(a.Spans, a.EndToEnd) }
	same := func(x, y *Span) bool {
		return x.From == y.From && x.To == y.To && x.Kind == y.Kind && x.Origin == y.Origin
	}
	find := func(in []Span, l *Span) *Span {
		for i := range in {
			if same(&in[i], l) {
				return &in[i]
			}
		}
		return nil
	}
	first, second := spans(before), spans(after)
	for i := range first {
		l := &first[i]
		m := find(second, l)
		if m == nil {
			changes = append(changes, Change{
				From: l.From, To: l.To, Kind: l.Kind, Origin: l.Origin, Verdict: Gone,
			})
			continue
		}
		for _, p := range diffPercents {
			if c, ok := change(l, m, p, before.Reference, after.Reference); ok {
				changes = append(changes, c)
			}
		}
	}
	for i := range second {
		if l := &second[i]; find(first, l) == nil {
			changes = append(changes, Change{
				From: l.From, To: l.To, Kind: l.Kind, Origin: l.Origin, Verdict: New,
			})
		}
	}
	return changes, nil
}

func change(l, m *Span, percent float64, before, after Reference) (Change, bool) {
	c := Change{
		From: l.From, To: l.To, Kind: l.Kind, Origin: l.Origin, Percent: percent,
		Suspect: l.All.Suspect+m.All.Suspect > 0,
	}
	x, ok := l.All.Percentiles.At(percent)
	y, ok2 := m.All.Percentiles.At(percent)
	if !ok || !ok2 {
		return c, false
	}
	c.BeforeLo_ns, c.BeforeHi_ns = before.ns(x)
	c.AfterLo_ns, c.AfterHi_ns = after.ns(y)
	c.Noise_ns = math.Hypot(l.All.noise(percent, before), m.All.noise(percent, after))
	switch {
	case c.AfterHi_ns+c.Noise_ns < c.BeforeLo_ns:
		c.Verdict = Faster
	case c.AfterLo_ns-c.Noise_ns > c.BeforeHi_ns:
		c.Verdict = Slower
	case max(c.AfterHi_ns-c.BeforeLo_ns, c.BeforeHi_ns-c.AfterLo_ns) <= c.Noise_ns:
		c.Verdict = Same
	default:
		c.Verdict = Undecided
	}
	return c, true
}

// noise is how far a percentile may be from the percentile of infinitely many tuples. With n
// independent tuples its rank is binomial, and lies within 2.58 standard deviations in 99 of 100
// cases. Tuples that queue behind each other are not independent, so ten of them count as one. The
// values at the two ranks are read from the coarse bins.
func (d *Durations) noise(percent float64, r Reference) float64 {
	const deviations, together = 2.58, 10.0
	n := float64(d.Count) / together
	q := percent / 100
	spread := deviations * math.Sqrt(q*(1-q)/max(n, 1))
	value := func(q float64, bins []Bin, high bool) float64 {
		rank := uint64(min(max(q, 0), 1) * float64(d.Count))
		var below uint64
		for i, b := range bins {
			if below += b.Count; rank < below || i == len(bins)-1 {
				if high {
					return float64(b.Hi_cycles)
				}
				return float64(b.Lo_cycles)
			}
		}
		return 0
	}
	p, _ := d.Percentiles.At(percent)
	up := value(q+spread, d.Highs, true) - float64(p.Hi_cycles)
	down := float64(p.Lo_cycles) - value(q-spread, d.Lows, false)
	return max(up, down, 0) / r.FrequencyLo_hz * 1e9
}
