package link

import "github.com/cloudprofiler/cloudprofiler/blackbox/calls"

// A call that comes at a strange moment may seem to have no cause although a request caused it, for
// example if a program took long for its first requests. But the data say how often a program sends
// calls by itself: as often as while no request is open. If many more calls than that seem to have
// no cause, these links are doubted. They are also doubted if there are few calls of a kind,
// because these tell little about how often the program sends such calls by itself.

// aloneMore is how many times more often than expected calls may have no cause before links are
// doubted.
const aloneMore = 2

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

// doubtAlone lowers the probabilities of links that say that a call of the window has no cause, if
// there are too many of them, or few calls of their kind. For the latter it uses Laplace's rule of
// succession: after n calls without a cause, the next one has none with probability (n+1)/(n+2).
func (p *program) doubtAlone(w window, all []Link) {
	made := make([]float64, len(p.expectAlone))
	found := make([]float64, len(p.expectAlone))
	each := func(do func(kind int32, l *Link)) {
		for _, s := range p.sharers {
			for c := range s.calls {
				if t := s.calls[c].from; t >= w.begin && t < w.end && len(s.candidates[c]) > 0 {
					do(s.calls[c].kind, &all[s.sends[c].call])
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
			l.lower(aloneMore * p.expectAlone[kind] / max(found[kind], 1e-9))
			l.lower((made[kind] + 1) / (made[kind] + 2))
		}
	})
}
