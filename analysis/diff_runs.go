package analysis

import (
	"cmp"
	"fmt"
	"math"
)

// runPercentile is a span's percentile in one run, in ns.
type runPercentile struct {
	lo, hi  float64
	noise   float64 // noise of the percentile in ns, as in Durations.noise; infinite: not known
	count   uint64
	lacking uint64 // durations that are withheld or could not be computed
	run     string
}

func (m runPercentile) middle() float64 { return m.lo/2 + m.hi/2 }

// side is a span's percentile in each run of one kind.
type side []runPercentile

// sideOf measures a percentile in each run that has it. If a run does not have it, sideOf says why.
func sideOf(spans []spanOf, percent float64) (s side, why string) {
	for _, l := range spans {
		d := &l.All
		p, ok := d.Percentiles.At(percent)
		if !ok {
			why = cmp.Or(why, l.whyWithheld(percent))
			continue
		}
		m := runPercentile{noise: d.noise(percent, l.reference), count: d.Count,
			lacking: d.Withheld + d.Unplaced, run: l.run}
		m.lo, m.hi = l.reference.toNs(p)
		s = append(s, m)
	}
	return s, why
}

// whyWithheld says why a run does not have a percentile of a span.
func (l *spanOf) whyWithheld(percent float64) string {
	reason := "its logs do not determine it"
	switch d := &l.All; {
	case d.Count > 0:
	case d.Withheld > 0:
		reason = fmt.Sprintf("all %d durations are withheld", d.Withheld)
	case d.Unplaced > 0:
		reason = fmt.Sprintf("none of %d durations could be computed", d.Unplaced)
	}
	return fmt.Sprintf("run %q has no p%v: %s", l.run, percent, reason)
}

// noise is how far a percentile may be from the percentile of infinitely many tuples, in ns.
func (d *Durations) noise(percent float64, r Reference) float64 {
	p, _ := d.Percentiles.At(percent)
	c, ok := d.Chance.At(percent)
	if !ok {
		return math.Inf(1)
	}
	far := max(float64(c.Hi_cycles)-float64(p.Hi_cycles), float64(p.Lo_cycles)-float64(c.Lo_cycles))
	return far / r.FrequencyLo_hz * 1e9
}

// lackingRun names a run that lacks some durations. It is empty if no run lacks durations.
func (s side) lackingRun() string {
	for _, m := range s {
		if m.lacking > 0 {
			return fmt.Sprintf("of %d durations of run %q, %d are withheld or could not be "+
				"computed", m.count+m.lacking, m.run, m.lacking)
		}
	}
	return ""
}

// tooFew names a run with too few durations to tell how far chance moves their percentile. It is
// empty if there is none.
func (s side) tooFew(percent float64) string {
	for _, m := range s {
		if math.IsInf(m.noise, 1) {
			return fmt.Sprintf("run %q has too few durations to tell how far chance moves their "+
				"p%v: it has %d, and %d are enough", m.run, percent, m.count,
				enoughForChance(inMilli(percent)))
		}
	}
	return ""
}

// mean returns an interval that contains the mean of the true percentiles.
func (s side) mean() (lo, hi float64) {
	n := float64(len(s))
	for _, m := range s {
		lo, hi = lo+m.lo/n, hi+m.hi/n
	}
	return lo, hi
}

// varianceWithin is the mean of the squared noises of the runs.
func (s side) varianceWithin() (mean float64) {
	for _, m := range s {
		mean += m.noise * m.noise / float64(len(s))
	}
	return mean
}

// variance is the variance of the runs' middles. Because of the bounds, the middles may vary more
// than the true percentiles.
func (s side) variance() (v float64) {
	lo, hi := s.mean()
	for _, m := range s {
		off := m.middle() - (lo/2 + hi/2)
		v += off * off / float64(len(s)-1)
	}
	return v
}

// noiseOf is how far the difference of two sides moves by chance, at most, in 99 of 100 cases. If
// one side has only a single run, runs of that side are assumed to differ as much as those of the
// other side.
func noiseOf(before, after side) float64 {
	b, a := float64(len(before)), float64(len(after))
	within := math.Sqrt(before.varianceWithin()/b + after.varianceWithin()/a)
	// The square of the difference's standard error, and the number of runs that it was estimated
	// from.
	var squared, runs float64
	switch {
	case b == 1 && a == 1:
		return within
	case b == 1:
		squared, runs = after.variance()*(1/b+1/a), a
	case a == 1:
		squared, runs = before.variance()*(1/b+1/a), b
	default:
		squared, runs = before.variance()/b+after.variance()/a, min(b, a)
	}
	return max(within, student99(int(runs)-1)*math.Sqrt(squared))
}

// surerDeviations is a number of standard deviations. In nine of ten cases, a normally distributed
// value is at most that far below its mean.
const surerDeviations = 1.2816

// needsOf says what would decide a change, given the gap between the intervals of the two sides.
// Chance may have made this gap larger than it truly is. So needsOf asks for somewhat more runs or
// tuples than would suffice for this gap.
func needsOf(gap float64, before, after side) *Needs {
	within := math.Sqrt(before.varianceWithin()+after.varianceWithin()) * (1 +
		surerDeviations/deviations99)
	switch {
	case gap <= 0:
		return &Needs{Bounds: true}
	case len(before) == 1 && len(after) == 1:
		return needsTuples(gap, within, before[0], after[0])
	}
	var variance float64
	switch {
	case len(before) == 1:
		variance = 2 * after.variance()
	case len(after) == 1:
		variance = 2 * before.variance()
	default:
		variance = before.variance() + after.variance()
	}
	least := float64(min(len(before), len(after)) + 1)
	for n := 2; ; n++ {
		widest := max(within, (student99(n-1)+surerDeviations)*math.Sqrt(variance))
		switch {
		case widest/math.Sqrt(float64(n)) < gap:
			return &Needs{Runs: max(float64(n), least)}
		case n > len(studentQuantiles): // student99 gives the same for all larger n
			return &Needs{Runs: max(math.Floor(widest/gap*widest/gap)+1, least)}
		}
	}
}

// needsTuples returns the factor by which the number of tuples must grow to decide a change between
// two runs. within is the noise from the present number of tuples. The noise falls with the square
// root of this number. Percentiles of more than exactValues durations are rounded outward, which
// narrows the gap and widens the noise.
func needsTuples(gap, within float64, before, after runPercentile) *Needs {
	times := func(gap float64) float64 { return math.Floor(within/gap*within/gap) + 1 }
	n, lost := times(gap), 0.0
	for _, m := range []runPercentile{before, after} {
		if m.count <= exactValues && n*float64(m.count) > exactValues {
			lost += 3 * max(math.Abs(m.lo), math.Abs(m.hi)) / (1 << subBits)
		}
	}
	if lost >= gap {
		return &Needs{Bounds: true}
	}
	return &Needs{Tuples: max(2, times(gap-lost))}
}

// student99 is a number of standard errors. In 99 of 100 cases, the mean of normally distributed
// values is at most this number of standard errors from the true mean. The standard error is
// estimated with the given degrees of freedom (Student's t).
func student99(freedom int) float64 {
	if freedom < 1 {
		return math.Inf(1)
	}
	return studentQuantiles[min(freedom, len(studentQuantiles))-1]
}

// studentQuantiles are the quantiles of Student's t at 0.995, for 1, 2 and more degrees of freedom.
// Beyond the end of the list, the quantile is smaller than the last value.
var studentQuantiles = []float64{
	63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012,
	2.977, 2.947, 2.921, 2.898, 2.878, 2.861, 2.845, 2.831, 2.819, 2.807, 2.797, 2.787, 2.779,
	2.771, 2.763, 2.756, 2.750,
}
