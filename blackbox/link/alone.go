package link

import (
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

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
