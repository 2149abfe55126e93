package link

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// learntMethod is the product's own method. For each program it learns from the data how probable
// each script is. A script is what the program did for one request. Then it draws many random
// sharings: each sharing assigns the program's calls to its requests. The more probable a sharing
// is according to the model, the more often the method draws it. The probability of a link is the
// share of drawn sharings that contain it.
//
// The method goes through the data in windows. In each window, the model also uses what it learnt
// in earlier windows, but less and less of it. So it follows the load.
type learntMethod struct {
	window int // number of calls in a window
	// memory has what was learnt about programs, from one call of Link to the next. If it is nil,
	// nothing is remembered.
	memory map[string]*program
	// wanted says of which calls the links are wanted. The links of other calls may be missing. If
	// wanted is nil, all links are wanted.
	wanted []bool
}

func (learntMethod) Name() string { return "learnt" }

// defaultWindow is the number of calls in a window if nobody chooses another.
const defaultWindow = 6000

const (
	firstPart        = 3   // the first one of several windows is smaller by this factor
	learnRounds      = 30  // of learning in the first window
	learnDraws       = 6   // draws in each of these rounds
	moreRounds       = 3   // of learning in a later window, by the second model
	moreDraws        = 1   // draws in each of these rounds
	probabilityDraws = 120 // draws from which probabilities are computed
	mostOpen         = 96  // candidates that a call may have
	// While the model is learnt, the method makes surveys (sharing.surveyOwners) only if calls have
	// fewer candidates than mostSurveyed, on average.
	mostSurveyed = 16
	longest_ns   = int64(1e15) // limits the length of requests from which the margin is computed
	oldWeight    = 0.5         // weight of earlier experience in each window
	leastTemper  = 0.3         // in the first round of learning: see model.temper
	// crowdedTemper replaces leastTemper if calls have many candidates: leastTemper would then
	// destroy the first sharing.
	crowdedTemper = 0.6
)

func (l learntMethod) Link(seen *calls.Seen) []Link {
	all := noLinks(seen)
	of := programNumbers(seen)
	left := mixedCallees(seen, of)
	if len(left) > 0 {
		l.wanted = nil // links of some calls depend on those of others
	}
	for done := map[int32]bool{}; ; {
		// A program that awaits responses whose requests are not known yet comes later in the
		// order.
		groups, order := map[int32][]place{}, []int32(nil)
		ready := func(g int32) bool {
			return !slices.ContainsFunc(left[g], func(to int32) bool {
				return to != g && !done[to]
			})
		}
		places := placesOf(seen)
		// If all programs wait for each other, none of them waits.
		waits := slices.ContainsFunc(places, func(p place) bool {
			return !done[of[p.number]] && ready(of[p.number])
		})
		for _, p := range places {
			g := of[p.number]
			if done[g] || waits && !ready(g) {
				continue
			}
			if groups[g] == nil {
				order = append(order, g)
			}
			if !p.alignAs(seen, l.memory[seen.Places[p.number].Program]) {
				p.subtractOffsets(seen, p.alignAll(seen), slack_ns)
			}
			p.mendSteps(seen)
			groups[g] = append(groups[g], p)
		}
		for _, g := range order {
			l.linkProgram(seen, groups[g], of, all)
			done[g] = true
		}
		if len(left) > 0 {
			linkLate(seen, all)
		}
		if len(order) == 0 || len(left) == 0 {
			return all
		}
		seen = pairedCalls(seen, all)
	}
}

// A connection is mixed if several requests are open on it at once. mixedCallees returns, for each
// program, the programs whose responses to it come over mixed connections.
func mixedCallees(seen *calls.Seen, of []int32) map[int32][]int32 {
	callees := map[int32][]int32{}
	for i := range seen.Calls {
		c := &seen.Calls[i]
		if c.Answers && c.Caller >= 0 && c.Callee >= 0 {
			if g := of[c.Callee]; !slices.Contains(callees[g], of[c.Caller]) {
				callees[g] = append(callees[g], of[c.Caller])
			}
		}
	}
	return callees
}

// pairedCalls returns the calls again. The requests of mixed connections now have the responses
// that the links found for them.
func pairedCalls(seen *calls.Seen, links []Link) *calls.Seen {
	answer := map[int32]int32{} // by request
	for i := range seen.Calls {
		r := links[i].Cause
		if !seen.Calls[i].Answers || r < 0 || seen.Calls[r].Got_ns != calls.Unknown {
			continue
		}
		if known, ok := answer[r]; !ok || links[i].Probability > links[known].Probability {
			answer[r] = int32(i)
		}
	}
	if len(answer) == 0 {
		return seen
	}
	with := *seen
	with.Calls = slices.Clone(seen.Calls)
	for r, a := range answer {
		c, response := &with.Calls[r], &seen.Calls[a]
		c.Got_ns, c.GotBy = response.Received_ns, response.ReceivedBy
	}
	return &with
}

// linkProgram links the calls of one program.
func (l learntMethod) linkProgram(seen *calls.Seen, places []place, of []int32, all []Link) {
	name := seen.Places[places[0].number].Program
	p := newProgram(places, of, seen.Quantum_ns, l.memory[name])
	p.wanted = l.wanted
	windows := p.windows(l.window)
	if len(windows) == 0 {
		return
	}
	defer func() {
		for i := range places {
			places[i].doubtClocks(seen, all)
		}
	}()
	for _, w := range windows {
		p.linkWindow(seen, w, all)
	}
	isLong := len(windows) > 1 || l.memory != nil
	if p.wasCrowded() || p.piledUp() || !isLong {
		name := name + " again"
		if second := p.compare(l.memory[name], seen, windows, all); second != nil {
			l.keepLearnt(name, second)
		}
	}
	if p.foreign() && p.aligned() {
		p.realign(seen) // for what comes next: clocks drift
	}
	l.keepLearnt(name, p)
}

// keepLearnt keeps what was learnt about a program, without its calls.
func (l learntMethod) keepLearnt(name string, p *program) {
	if l.memory != nil {
		l.memory[name] = &program{m: p.m, kinds: p.kinds, callers: p.callers, x: p.x,
			lingers: p.lingers, rest: p.rest, moved: map[int32]map[int32]int64{}}
		for i := range p.places {
			l.memory[name].moved[p.places[i].number] = p.places[i].moved
		}
	}
}

// wasCrowded reports whether calls of the last window had many candidates.
func (p *program) wasCrowded() bool { return p.load() > 3 }

// sent returns the number of calls in the present window.
func (p *program) sent() (n float64) {
	for _, s := range p.sharers {
		n += float64(len(s.calls))
	}
	return n
}

// load returns how many candidates a call of the last window had on average.
func (p *program) load() float64 {
	candidates, n := 0, 0
	for _, s := range p.sharers {
		for _, open := range s.candidates {
			candidates, n = candidates+len(open), n+1
		}
	}
	return float64(candidates) / float64(max(n, 1))
}

// load returns how many candidates a call has on average.
func (s *sharing) load() float64 {
	n := 0
	for _, open := range s.candidates {
		n += len(open)
	}
	return float64(n) / float64(max(len(s.candidates), 1))
}

// A program has all places that run one program, and what was learnt about it.
type program struct {
	m      *model
	places []place
	kinds  map[callKind]int32 // number of each kind of call
	// callers has a number for each kind of request.
	callers map[requestKind]int32
	of      []int32       // program of each place
	wanted  []bool        // see learntMethod.wanted
	x       *experience   // from the answers of earlier windows; nil: there were none
	scores  []float64     // mean logarithm of the probabilities of sharings, for each answer
	crowd   map[int32]int // candidates of each linked call; nil: at most one thread is known

	isSecond bool // it is the second model of a program
	rest     int  // windows that the second model may leave out

	lingers []int64                   // of each kind of call: see linger.go
	moved   map[int32]map[int32]int64 // of each place: see place.moved

	memo    *memo
	sharers []*sharing // one for each place, in the present window

	expectAlone []float64 // of each kind of call, in the present window: see noteIdle
	strays      []bool    // of each kind of call, in the present window: see findStrays
}

// newProgram returns a program. It takes over what an earlier program (old) learnt, except in three
// cases: old is nil, the program sends calls of new kinds, or its clocks have to be aligned.
func newProgram(places []place, of []int32, quantum int64, old *program) *program {
	p := &program{places: places, of: of, kinds: map[callKind]int32{}, memo: &memo{}}
	if old != nil {
		p.kinds, p.callers = maps.Clone(old.kinds), old.callers
	}
	p.findCallKinds()
	isNew := func(at place) bool { return at.foreign && !at.aligned }
	if old != nil && (len(p.kinds) > len(old.kinds) || slices.ContainsFunc(places, isNew)) {
		return newProgram(places, of, quantum, nil)
	}
	requests := p.requestKinds()
	if old != nil {
		p.m, p.x, p.lingers, p.rest = old.m, old.x, old.lingers, old.rest
	} else {
		p.m = newModel(requests, len(p.kinds), max(quantum, leastUnit))
	}
	p.measureLinger()
	for i := range p.places {
		at := &p.places[i]
		at.ordered = at.numberEvents(p.m.requests, p.m.kinds, p.kindOf)
	}
	return p
}

func compareBool(a, b bool) int { return cmp.Compare(count(a), count(b)) }

// A callKind is the called program, and whether the call asks this program or answers it. A call
// that awaits no response may be of another kind than one that does.
type callKind struct {
	callee          int32
	answers, oneWay bool
}

// kindOf returns the number of the kind of a send.
func (p *program) kindOf(s *send) int32 {
	k := callKind{p.of[s.callee], s.answers != 0, s.oneWay}
	n, ok := p.kinds[k]
	if !ok {
		k.oneWay = false
		n = p.kinds[k]
	}
	return n
}

// findCallKinds gives each new kind of call a number. If a program sends few one-way calls to
// another one, they are of the same kind as its other calls there: their responses may be lost.
func (p *program) findCallKinds() {
	const least, share = 20, 0.05 // of the calls to a program
	type counts struct{ all, oneWay int }
	number := map[callKind]counts{}
	var order []callKind
	for _, at := range p.places {
		for _, s := range at.sends {
			k := callKind{p.of[s.callee], s.answers != 0, false}
			n, ok := number[k]
			if !ok {
				order = append(order, k)
			}
			number[k] = counts{n.all + 1, n.oneWay + count(s.oneWay)}
		}
	}
	for _, k := range order {
		if _, ok := p.kinds[k]; ok {
			continue
		}
		p.kinds[k] = int32(len(p.kinds))
		n := number[k]
		if k.oneWay = true; n.oneWay < n.all && n.oneWay >= least &&
			float64(n.oneWay) >= share*float64(n.all) {
			p.kinds[k] = int32(len(p.kinds))
		}
	}
}

// A requestKind is the calling program, and whether it awaits a response.
type requestKind struct {
	caller int32
	oneWay bool
}

// requestKinds gives each request the number of its kind, and returns how many kinds there are. A
// kind has the requests of one calling program, with or without a response. Rare kinds are put
// together.
func (p *program) requestKinds() int {
	const most, least = 8, 20
	number := map[requestKind]int{}
	kindOf := func(r *request) requestKind {
		k := requestKind{-1, r.to == farFuture && r.mixed == 0}
		if r.caller >= 0 {
			k.caller = p.of[r.caller]
		}
		return k
	}
	for i := range p.places {
		for k := range p.places[i].requests {
			number[kindOf(&p.places[i].requests[k])]++
		}
	}
	kinds := slices.SortedFunc(maps.Keys(number), func(a, b requestKind) int {
		return cmp.Or(-cmp.Compare(number[a], number[b]), cmp.Compare(a.caller, b.caller),
			compareBool(a.oneWay, b.oneWay))
	})
	numbers := p.callers
	if numbers == nil {
		numbers = map[requestKind]int32{}
		for i, k := range kinds {
			if i < most-1 && number[k] >= least {
				numbers[k] = int32(i) + 1 // 0: the others
			}
		}
		p.callers = numbers
	}
	for i := range p.places {
		for k := range p.places[i].requests {
			r := &p.places[i].requests[k]
			r.kind = numbers[kindOf(r)]
		}
	}
	return len(numbers) + 1
}

// linkWindow links the calls of a window. In a later window, the first model begins as it was. This
// is quick, and mostly right, but some mistakes of the first sharing stay: the model is already too
// sure to mend them. So the second model begins anew, and does not make the same mistakes.
func (p *program) linkWindow(seen *calls.Seen, w window, all []Link) {
	p.openWindow(w)
	switch {
	case p.x != nil && p.isSecond:
		p.learn(moreRounds, moreDraws)
	case p.x != nil:
		for _, s := range p.sharers {
			s.follow()
		}
	default:
		p.learn(learnRounds, learnDraws)
		if p.foreign() && !p.aligned() {
			// The sharing now shows roughly which calls belong to a request. So the clocks can be
			// aligned better. If this makes the data clearly less probable, the sharing misled:
			// by chance, the score of a sharing varies by about the square root of its calls.
			score, before := p.score()-2*math.Sqrt(p.sent()), p.keep()
			p.realign(seen)
			p.m = newModel(p.m.requests, p.m.kinds, p.m.unit)
			p.openWindow(w)
			p.learn(learnRounds, learnDraws)
			if p.score() < score {
				p.restore(before)
			}
		}
	}
	p.answer(w, all)
}

// learn learns a model, beginning with a first guess. It improves the model and the sharing in
// turns. At first it often accepts a change that makes the sharing less probable, so that it does
// not stop at a mediocre sharing.
func (p *program) learn(rounds, draws int) {
	p.giveOwners()
	var busy []int32
	if p.mostThreads() > 1 {
		busy = p.busyRequests()
	}
	x := p.m.newExperience()
	for _, s := range p.sharers {
		s.teach(x, 1, busyLimit(busy, 0)) // the first sharing is better than none
	}
	p.m.learn(x)
	temper := leastTemper
	if p.wasCrowded() {
		temper = crowdedTemper
	}
	for round := range rounds {
		p.m.temper = min(1, temper+1.2*float64(round)/float64(rounds))
		if p.mostThreads() == 1 {
			p.m.temper = 1 // the first sharing is nearly right
		}
		limit := busyLimit(busy, float64(round)/float64(rounds))
		x := p.earlier()
		for _, s := range p.sharers {
			s.rescore()
			// If calls have very many candidates, or if there are few rounds, a survey does not
			// show which candidates are hopeless, because the model still changes.
			if p.x == nil && 3*round >= rounds && s.load() < mostSurveyed {
				s.surveyOwners(3*round%rounds == 0)
			}
			for range draws {
				s.drawOwners()
				s.teach(x, 1/float64(draws), limit)
			}
		}
		p.m.learn(x)
	}
}

// earlier returns the experience from earlier windows, with less weight than new experience has.
func (p *program) earlier() *experience {
	x := p.m.newExperience()
	if p.x != nil {
		x.merge(p.x, oldWeight)
	}
	return x
}

// mostThreads returns the largest number of threads that sent something in one place. It returns 0
// if no threads are known.
func (p *program) mostThreads() (most int) {
	for _, s := range p.sharers {
		if s.order != nil {
			most = max(most, s.order.threads)
		}
	}
	return most
}

// score returns the logarithm of the probability of the present sharings.
func (p *program) score() (sum float64) {
	for _, s := range p.sharers {
		s.rescore()
		sum += s.score()
	}
	return sum
}

// answer draws sharings until they no longer depend on the first one, and then finds links from
// further draws. The model learns from both, except that a first model learns only from the latter:
// it already knows this window.
func (p *program) answer(w window, all []Link) {
	p.m.temper = 1
	x := p.earlier()
	for _, s := range p.sharers {
		s.rescore()
		s.settle(x)
	}
	if p.x != nil {
		p.m.learn(x)
	}
	x = p.earlier()
	score := 0.0
	for _, s := range p.sharers {
		s.rescore()
		score += s.drawAnswer(w, all, x)
	}
	p.scores = append(p.scores, score)
	p.m.learn(x)
	p.x = x
	p.doubtAlone(w, all)
	p.noteCrowds(w)
}
