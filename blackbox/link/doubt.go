package link

import (
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// What is learnt may depend on chance, most of all if there are few data, or if calls have many
// candidates. So a second model is learnt, and the links are the weighted mean of both. If calls
// have many candidates, the two models also show whether they can be trusted: if they explain the
// data equally well, but hardly agree, then nobody knows which of them is right.

const (
	firstSays = 0.55 // weight of the better one of two models
	mostSays  = 0.95 // its weight if it is much better
	goodMatch = 0.6  // least agreement of two models that were learnt well

	nearMatch   = 0.99 // agreement of models of which one is enough
	restWindows = 8    // windows that only one model links then
)

// compare lets a second model link windows that the first model has linked. Where two models nearly
// agree, the second one then leaves out some windows, because it takes as much time as the first.
// The parameter old has what the second model learnt earlier, or is nil, and all has the links of
// the first model. In the windows of both models, compare replaces them by the links of both. It
// returns the second model, or nil if this model left out all windows.
func (p *program) compare(old *program, seen *calls.Seen, windows []window,
	all []Link) (second *program) {
	again := noLinks(seen)
	var linked []window
	difference := 0.0
	for i, w := range windows {
		if p.rest > 0 && !p.piledUp() {
			p.rest--
			continue
		}
		if second == nil {
			second = newProgram(p.places, p.of, seen.Quantum_ns, old)
			second.isSecond, second.wanted = true, p.wanted
		}
		second.linkWindow(seen, w, again)
		linked = append(linked, w)
		difference += p.scores[i] - second.scores[len(linked)-1]
		p.rest = 0
		if p.agreement(all, again, w) >= nearMatch {
			p.rest = restWindows
		}
	}
	p.combine(all, again, difference, linked)
	return second
}

// sendsIn returns the sends of some windows whose links are wanted.
func (p *program) sendsIn(windows ...window) iter.Seq[*send] {
	return func(yield func(*send) bool) {
		for i := range p.places {
			sends := p.places[i].sends
			for _, w := range windows {
				from, _ := slices.BinarySearchFunc(sends, w.begin, compareSent)
				for k := from; k < len(sends) && sends[k].from < w.end; k++ {
					if p.wants(sends[k].call) && !yield(&sends[k]) {
						return
					}
				}
			}
		}
	}
}

// combine combines the links of two models in some windows. The parameter all has the links of the
// first model, and combine replaces them by the result. The parameter difference says by how much
// the first model's score is larger.
func (p *program) combine(all, again []Link, difference float64, windows []window) {
	part, trust := firstSays, 1.0
	if p.wasCrowded() {
		n := 0
		for range p.sendsIn(windows...) {
			n++
		}
		if math.Abs(difference) > float64(n)/2 {
			part = mostSays
		} else {
			trust = min(1, p.agreement(all, again, windows...)/goodMatch)
		}
	}
	if difference < 0 {
		part = 1 - part
	}
	chance := 1 / max(p.load(), 1)
	doubt := p.doubtOfCrowds(all, again, windows)
	for s := range p.sendsIn(windows...) {
		l := meanLink(all[s.call], again[s.call], part)
		if trust < 1 {
			l.Probability = trust*l.Probability + (1-trust)*min(chance, l.Probability)
			l.RunnerUpProbability = min(l.RunnerUpProbability, l.Probability)
		}
		if n := p.crowd[s.call]; n > 0 {
			l.lower(1 - doubt[bandOf(n)])
		}
		all[s.call] = l
	}
}

// In a program with several threads, requests may pile up for a short time. Then a model may be
// sure of wrong links: when a thread turns to another request, the model believes that it goes on
// with the same one. How often two models differ about calls with equally many candidates shows how
// far both can be trusted.

const (
	pileCandidates = 4    // least candidates of a call that was sent while requests piled up
	pilePart       = 0.01 // if a larger part of the calls was sent so, requests piled up
	crowdLeast     = 20   // if a band has fewer calls, those of the next band count, too
	crowdDoubt     = 5    // mistakes that both models may make, for each one that only one makes
)

// noteCrowds notes how many candidates the calls of a window have.
func (p *program) noteCrowds(w window) {
	if p.mostThreads() < 2 {
		return
	}
	if p.crowd == nil {
		p.crowd = map[int32]int{}
	}
	for _, s := range p.sharers {
		for c := range s.calls {
			if t := s.calls[c].from; t >= w.begin && t < w.end && !s.pinned[c] {
				p.crowd[s.sends[c].call] = len(s.candidates[c])
			}
		}
	}
}

// piledUp reports whether requests piled up.
func (p *program) piledUp() bool {
	n := 0
	for _, candidates := range p.crowd {
		n += count(candidates >= pileCandidates)
	}
	return float64(n) > pilePart*float64(len(p.crowd))
}

// bandOf returns the band of a number of candidates. A band has similar numbers.
func bandOf(candidates int) int {
	high := bits.Len(uint(candidates))
	return 2*high + candidates>>max(high-2, 0)&1
}

// doubtOfCrowds returns the probability that a link is wrong, for each band of candidates, as far
// as two models show it. The probability never falls as the number of candidates grows.
func (p *program) doubtOfCrowds(all, again []Link,
	windows []window) (doubt [2*bits.UintSize + 2]float64) {
	var differ, n [len(doubt)]float64
	for s := range p.sendsIn(windows...) {
		if candidates, ok := p.crowd[s.call]; ok {
			b := bandOf(candidates)
			differ[b] += float64(count(all[s.call].Cause != again[s.call].Cause))
			n[b]++
		}
	}
	for b := len(doubt) - 2; b > 0; b-- {
		if n[b] < crowdLeast {
			differ[b], n[b] = differ[b]+differ[b+1], n[b]+n[b+1]
		}
	}
	for b := 1; b < len(doubt); b++ {
		wrong := crowdDoubt * differ[b]
		doubt[b] = max(doubt[b-1], wrong/max(n[b]+wrong, 1))
	}
	return doubt
}

// lower makes a link at most as probable as given, but not less probable than its runner-up.
func (l *Link) lower(most float64) {
	l.Probability = min(l.Probability, max(most, l.RunnerUpProbability))
}

// agreement returns how far two models agree in some windows: the share of the links of one model
// that the other model confirms. Links and confirmations are weighted by their probabilities.
func (p *program) agreement(one, other []Link, windows ...window) float64 {
	both, own := 0.0, 1e-9
	for s := range p.sendsIn(windows...) {
		x, y := &one[s.call], &other[s.call]
		own += x.Probability + y.Probability
		both += y.probabilityOf(x.Cause) + x.probabilityOf(y.Cause)
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

// A call that comes at a strange moment may seem to have no cause although a request caused it, for
// example if a program took long for its first requests. But the data say how often a program sends
// calls by itself: as often as while no request is open. If many more calls than that seem to have
// no cause, these links are doubted. They are also doubted if there are few calls of a kind,
// because these tell little about how often the program sends such calls by itself.

// aloneMore is how many times more often than expected calls may have no cause before links are
// doubted.
const aloneMore = 2

// strayAlone is the probability that a stray has no cause: see findStrays.
const strayAlone = 0.5

// noteIdle notes how many calls of each kind the window should have that the program sent by itself
// while requests were open. The calls that it sent while none was open show this. The times are in
// units of the model.
func (p *program) noteIdle(idleCalls []float64, idle, all float64) {
	p.expectAlone = make([]float64, len(idleCalls))
	all *= float64(len(p.places))
	for k, n := range idleCalls {
		p.expectAlone[k] = (n + 1) * max(all-idle, 0) / max(idle, 1)
	}
}

// On a mixed connection, nobody knows for sure how long a request is open. So a call that comes
// while no request counts as open may belong to a request that waited very long: it may be a stray.
// If few calls of a kind come then, they do not show that the program sends calls of this kind by
// itself.
func (p *program) findStrays(numbers, idleCalls []float64) {
	const few = 0.1 // of the calls of a kind
	p.strays = make([]bool, len(numbers))
	if !slices.ContainsFunc(p.sharers, func(s *sharing) bool {
		return slices.ContainsFunc(s.requests, func(r request) bool { return r.mixed != 0 })
	}) {
		return
	}
	for k, n := range numbers {
		if idleCalls[k] < few*n {
			p.strays[k], idleCalls[k] = true, 0
		}
	}
}

// doubtAlone lowers the probabilities of links that say that a call of the window has no cause, if
// there are too many of them, or few calls of their kind. For the latter it uses Laplace's rule of
// succession: after n calls without a cause, the next one has none with probability (n+1)/(n+2).
func (p *program) doubtAlone(w window, all []Link) {
	made := make([]float64, len(p.expectAlone))
	found := make([]float64, len(p.expectAlone))
	each := func(do func(kind int32, l *Link)) {
		for _, s := range p.sharers {
			for c := range s.calls {
				t, kind := s.calls[c].from, s.calls[c].kind
				if t >= w.begin && t < w.end && (len(s.candidates[c]) > 0 || p.strays[kind]) {
					do(kind, &all[s.sends[c].call])
				}
			}
		}
	}
	each(func(kind int32, l *Link) {
		made[kind]++
		if l.Cause == calls.NoCause {
			found[kind] += l.Probability
		}
	})
	each(func(kind int32, l *Link) {
		if l.Cause == calls.NoCause {
			if p.strays[kind] {
				l.lower(strayAlone)
			}
			l.lower(aloneMore * p.expectAlone[kind] / max(found[kind], 1e-9))
			l.lower((made[kind] + 1) / (made[kind] + 2))
		}
	})
}
