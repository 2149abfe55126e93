package link

import (
	"maps"
	"math"
	"slices"
)

// What is learnt may depend on chance, most of all if there are few data, or if calls have many
// candidates. So a second model is learnt, and the links are the weighted mean of both. If calls
// have many candidates, the two models also show whether they can be trusted: if they explain the
// data equally well, but hardly agree, then nobody knows which of them is right.

const (
	firstSays = 0.55 // weight of the better one of two models
	mostSays  = 0.95 // its weight if it is much better
	goodMatch = 0.6  // two models that were learnt well agree at least so far
)

// combine combines the links of two models. The parameter all has the links of the first model, and
// combine replaces them by the result. The parameter difference says by how much the first model's
// score is larger.
func (p *program) combine(all, again []Link, difference float64) {
	part, trust := firstSays, 1.0
	if p.wasCrowded() {
		if math.Abs(difference) > float64(p.sends())/2 {
			part = mostSays
		} else {
			trust = min(1, p.agreement(all, again)/goodMatch)
		}
	}
	if difference < 0 {
		part = 1 - part
	}
	chance := 1 / max(p.load(), 1)
	for i := range p.places {
		for _, s := range p.places[i].sends {
			l := meanLink(all[s.call], again[s.call], part)
			if trust < 1 {
				l.Probability = trust*l.Probability + (1-trust)*min(chance, l.Probability)
				l.RunnerUpProbability = min(l.RunnerUpProbability, l.Probability)
			}
			all[s.call] = l
		}
	}
}

// sends returns the number of calls whose links are wanted.
func (p *program) sends() (n int) {
	for i := range p.places {
		for _, s := range p.places[i].sends {
			n += count(p.wants(s.call))
		}
	}
	return n
}

// agreement returns how far two models agree: the share of the links of one model that the other
// model confirms. Links and confirmations count by their probabilities.
func (p *program) agreement(one, other []Link) float64 {
	both, own := 0.0, 1e-9
	for i := range p.places {
		for _, s := range p.places[i].sends {
			x, y := &one[s.call], &other[s.call]
			own += x.Probability + y.Probability
			both += y.probabilityOf(x.Cause) + x.probabilityOf(y.Cause)
		}
	}
	return both / own
}

func (l *Link) probabilityOf(cause int32) float64 {
	switch cause {
	case l.Cause:
		return l.Probability
	case l.RunnerUp:
		return l.RunnerUpProbability
	}
	return 0
}

// meanLink returns the weighted mean of two links. The parameter part is the weight of x.
func meanLink(x, y Link, part float64) Link {
	causes := map[int32]float64{
		x.Cause: x.Probability * part,
	}
	causes[x.RunnerUp] += x.RunnerUpProbability * part
	causes[y.Cause] += y.Probability * (1 - part)
	causes[y.RunnerUp] += y.RunnerUpProbability * (1 - part)
	b := newBest()
	for _, c := range slices.Sorted(maps.Keys(causes)) {
		b.add(c, causes[c])
	}
	b.sum = 1
	return b.link()
}
