package link

import (
	"math"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A sharing divides the calls that one place sent among the requests that it received.
type sharing struct {
	m          *model
	foreign    bool
	order      *order
	requests   []request
	sends      []send
	calls      []call
	candidates [][]int32
	owner      []int32 // request of each call, or -1
	scripts    [][]int32
	scores     []float64
	events     [][]event // of the scripts
	current    []bool    // events has the events of the script as it is now
	random     dice
	busy       []int32 // of the requests: see busy.go
	starts     []int64 // when requests begin: see queue.go; nil: the program has one thread

	pinned []bool // the only candidate of the call is its cause
	// active has, for each call, the owners that were not hopeless in the last survey (see
	// surveyCall). It is nil if the call was in no survey.
	active   [][]int32
	lively   []int32 // calls with an active owner besides their own one; nil: not known yet
	isLively []bool  // calls in lively
	possible []int32
	// changes counts the changes of owners. changed has, for each request, the number of the last
	// change of its script, and surveyed has, for each call, the last change before its survey.
	changes           int32
	changed, surveyed []int32
	latest            int32 // the last change before the end of the last survey
	settled           bool  // the model does not change any more
	turn              int
	surveying         bool
	best              float64 // the best change that was tried in a survey; -Inf: below any limit

	// had[c] says for how many draws each owner had the call c. had is nil while draws are not
	// counted.
	had   [][]tenure
	since []int32

	// The exchange that is being tried: script would be the new script of a request. mine and
	// theirs are the parts of scripts that two requests would exchange.
	script, mine, theirs []int32
	chain                []int32 // see chainAfter

	names []uint64 // of the scripts: see the type memo
	memo  *memo

	once  bool // exchanges that are in tried are not tried again
	tried []trial
}

type tenure struct{ owner, draws int32 }

// A trial is an exchange of parts of two scripts. Each part is given by its first call, or -1, and
// by its length.
type trial struct {
	mine, theirs int32
	n, m         int
}

const (
	hopelessChance = -10 // logarithm of a chance that is as good as none
	fullDrawEvery  = 16  // in one of this many draws, all owners of a call are tried
	mostTries      = 64  // tries for a call in one draw
	fewCandidates  = 2   // of calls that are not tried again while nothing changes
)

// eventsOf returns the events of a request's script.
func (s *sharing) eventsOf(r int) []event {
	if !s.current[r] {
		s.events[r] = slices.Grow(s.events[r][:0], 2*len(s.scripts[r])+2)
		s.m.walkEvents(&s.requests[r], s.scripts[r], s.calls, s.order, math.Inf(-1), &s.events[r])
		s.current[r] = true
	}
	return s.events[r]
}

// scoreOf returns the score that a request would have with the given script, or, if that score is
// below least, any number below least.
func (s *sharing) scoreOf(r int32, script []int32, least float64) float64 {
	return s.m.walkEvents(&s.requests[r], script, s.calls, s.order, least, nil)
}

// rescore computes the scores of all scripts. It must be called after the model has changed.
func (s *sharing) rescore() {
	s.memo.forget()
	if s.order != nil && s.order.threads > 1 {
		clear(s.current) // in which way events follow depends on the model
	}
	for r := range s.requests {
		s.scores[r] = s.m.score(s.eventsOf(r))
	}
	s.findStarts()
}

// makeScripts makes empty scripts of all requests.
func (s *sharing) makeScripts() {
	n := len(s.requests)
	s.scripts, s.scores = make([][]int32, n), make([]float64, n)
	s.events, s.current = make([][]event, n), make([]bool, n)
	s.names = make([]uint64, n)
	for r := range s.names {
		s.names[r] = saltOf(^int32(r))
	}
	giveRoom(s.scripts, 4)
	s.changed, s.surveyed = make([]int32, n), make([]int32, len(s.calls))
}

// giveRoom gives each list room for some elements, in one piece of memory. So only longer lists,
// which are rarer, cost an allocation.
func giveRoom[T any](lists [][]T, room int) {
	all := make([]T, room*len(lists))
	for i := range lists {
		lists[i] = all[room*i : room*i : room*(i+1)]
	}
}

// surveyOwners tries all changes of the owner of each call, and notes the owners that are not
// hopeless (see surveyCall). If the parameter all is false, it only looks at two kinds of calls:
// those of requests whose scripts have changed since the last survey, and those with few candidates
// if the script of a candidate has changed.
func (s *sharing) surveyOwners(all bool) {
	for c := range s.calls {
		r := s.owner[c]
		if all || r >= 0 && s.changed[r] > s.latest ||
			s.settled && s.hasFew(c) && !s.isStill(c) {
			s.surveyCall(int32(c))
		}
	}
	s.latest, s.lively = s.changes, make([]int32, 0, len(s.calls)/8)
	s.isLively = make([]bool, len(s.calls))
	for c := range s.active {
		s.noteLively(int32(c))
	}
}

// noteLively adds a call to lively, if it belongs there.
func (s *sharing) noteLively(c int32) {
	a := s.active[c]
	if len(a) > 1 || len(a) == 1 && a[0] != s.owner[c] {
		s.lively, s.isLively[c] = append(s.lively, c), true
	}
}

// surveyCall notes which requests have a chance to be the owner of a call.
func (s *sharing) surveyCall(c int32) {
	if s.pinned[c] || len(s.candidates[c]) == 0 {
		return
	}
	s.active[c], s.surveyed[c], s.surveying = s.active[c][:0], s.changes, true
	for k := -1; k < len(s.candidates[c]); k++ {
		to := int32(-1)
		if k >= 0 {
			to = s.candidates[c][k]
		}
		s.best = math.Inf(-1)
		if to != s.owner[c] {
			s.exploreChanges(c, to)
		}
		if s.best > hopelessChance || to == s.owner[c] {
			s.active[c] = append(s.active[c], to)
		}
	}
	s.surveying = false
}

func (s *sharing) hasFew(c int) bool { return len(s.candidates[c]) <= fewCandidates }

// isStill reports whether no candidate of a call has changed since the survey of the call.
func (s *sharing) isStill(c int) bool {
	for _, r := range s.candidates[c] {
		if s.changed[r] > s.surveyed[c] {
			return false
		}
	}
	return true
}

// exploreChanges tries all changes that give a call to another request.
func (s *sharing) exploreChanges(c, to int32) {
	s.tryMove(c, to)
	if to < 0 || s.owner[c] == to {
		return
	}
	if s.owner[c] < 0 {
		if s.replaceCall(c, to); s.owner[c] < 0 {
			s.adoptChain(c, to)
		}
		return
	}
	s.tried, s.once = s.tried[:0], true
	defer func() { s.once = false }()
	for _, other := range s.scripts[to] {
		if s.calls[other].kind != s.calls[c].kind {
			continue
		}
		for length := 1; length <= 2; length++ {
			if s.exchangeParts(c, to, other, length); s.owner[c] == to {
				return
			}
		}
		if s.exchangeSteps(c, to, other); s.owner[c] == to {
			return
		}
	}
	if s.exchangeChains(c, to); s.owner[c] == to {
		return
	}
	if s.exchangeRest(c, to); s.owner[c] != to {
		s.exchangeAll(c, to)
	}
}

// drawOwners tries to change the owner of each call. After a survey, it rarely tries owners that
// were hopeless in the survey. It does not try them at all if nothing has changed since the survey:
// then they are still hopeless.
func (s *sharing) drawOwners() {
	s.turn++
	if s.lively == nil {
		for c := range s.calls {
			s.drawOwner(int32(c), s.possibleOwners(int32(c)))
		}
		return
	}
	for _, c := range s.lively {
		s.drawOwner(c, s.active[c])
	}
	for c := s.turn % fullDrawEvery; c < len(s.calls); c += fullDrawEvery {
		s.drawOwner(int32(c), s.possibleOwners(int32(c)))
	}
}

// possibleOwners returns the owners that a call may have. It leaves out those that had no chance in
// the survey of the call and still have none, because nothing has changed.
func (s *sharing) possibleOwners(c int32) []int32 {
	if s.pinned[c] || len(s.candidates[c]) == 0 {
		return nil
	}
	s.possible = s.possible[:0]
	if r := s.owner[c]; s.settled && r >= 0 && s.changed[r] <= s.surveyed[c] {
		for _, r := range s.candidates[c] {
			if s.changed[r] > s.surveyed[c] {
				s.possible = append(s.possible, r)
			}
		}
		return s.possible
	}
	if s.settled && s.isStill(int(c)) {
		return nil
	}
	s.possible = append(s.possible, s.candidates[c]...)
	return append(s.possible, -1)
}

// drawOwner tries to give a call to some of the given owners.
func (s *sharing) drawOwner(c int32, owners []int32) {
	if len(owners) == 0 {
		return
	}
	for range min(len(owners)+1, mostTries) {
		to := owners[s.random.IntN(len(owners))]
		if to == s.owner[c] {
			continue
		}
		if to < 0 || s.random.IntN(4) == 0 {
			s.tryMove(c, to)
		} else {
			s.swapParts(c, to)
		}
	}
}

// giveOwner makes a request the owner of a call.
func (s *sharing) giveOwner(c, to int32) {
	if s.had != nil {
		s.countOwners(c)
	}
	s.changes++
	for _, r := range [2]int32{s.owner[c], to} {
		if r >= 0 {
			s.changed[r] = s.changes
		}
	}
	if s.owner[c] = to; s.lively != nil && !s.isLively[c] {
		s.noteLively(c)
	}
}

// countOwners notes for how many draws a call had its owner.
func (s *sharing) countOwners(c int32) {
	draws := int32(s.turn) - s.since[c]
	s.since[c] = int32(s.turn)
	if draws == 0 {
		return
	}
	for i := range s.had[c] {
		if s.had[c][i].owner == s.owner[c] {
			s.had[c][i].draws += draws
			return
		}
	}
	s.had[c] = append(s.had[c], tenure{s.owner[c], draws})
}

// tryMove tries to give a call to another request, or to none.
func (s *sharing) tryMove(c, to int32) {
	bonus := 0.0
	if s.owner[c] < 0 {
		bonus -= s.aloneScore(c)
	}
	if to < 0 {
		bonus += s.aloneScore(c)
	}
	one := [1]int32{c}
	if s.acceptExchange(s.owner[c], to, one[:], nil, bonus) {
		s.giveOwner(c, to)
	}
}

// acceptExchange tries to exchange parts of the scripts of two requests. If the sharing becomes
// more probable, it always accepts the exchange. Otherwise it decides at random. After an accepted
// exchange, s.mine and s.theirs are copies of the parts.
func (s *sharing) acceptExchange(from, to int32, mine, theirs []int32, bonus float64) bool {
	bonus += s.queueGain(from, to, mine, theirs)
	luck := s.random.fraction()
	limit := leastLog(luck)
	if s.surveying {
		limit = min(limit, hopelessChance)
	}
	before, x, y := -bonus, 0.0, 0.0
	if from >= 0 {
		before += s.scores[from]
	}
	if to >= 0 {
		before += s.scores[to]
	}
	// No score is above 0, so one of them alone may show that the change is hopeless.
	least := before + limit/s.m.temper
	moved := saltsOf(theirs) - saltsOf(mine) // by this, the name of the first script changes
	if from >= 0 {
		if x = s.scoreWith(from, moved, mine, theirs, least); x < least {
			return false
		}
	}
	if to >= 0 {
		if y = s.scoreWith(to, -moved, theirs, mine, least-x); y < least-x {
			return false
		}
	}
	d := (x + y - before) * s.m.temper
	s.best = max(s.best, d)
	if d < limit || d < 0 && d < float64(quickLog(luck)) {
		return false
	}
	s.mine, s.theirs = append(s.mine[:0], mine...), append(s.theirs[:0], theirs...)
	if from >= 0 {
		s.replaceScript(from, moved, s.mine, s.theirs, x)
	}
	if to >= 0 {
		s.replaceScript(to, -moved, s.theirs, s.mine, y)
	}
	return true
}

// replaceScript replaces calls of a request's script. The parameter moved is by how much the
// script's name changes.
func (s *sharing) replaceScript(r int32, moved uint64, without, with []int32, score float64) {
	s.script = s.copyExchanged(s.script[:0], s.scripts[r], without, with)
	s.scripts[r] = append(s.scripts[r][:0], s.script...)
	s.scores[r], s.current[r] = score, false
	s.names[r] += moved
	if s.starts != nil {
		s.starts[r] = s.startOf(r, s.scripts[r])
	}
}

// pinCause removes all candidates of a call except the one that is known to be its cause.
func (s *sharing) pinCause(c, cause int32) {
	for _, r := range s.candidates[c] {
		if s.requests[r].call == cause {
			s.setCandidates(c, []int32{r})
			s.pinned[c] = true
			return
		}
	}
}

// nearFirst is the number of bits of call.near.
const nearFirst = 64

// setCandidates gives a call its candidates, which must be sorted.
func (s *sharing) setCandidates(c int32, all []int32) {
	s.candidates[c] = all
	of := &s.calls[c]
	of.first, of.near = 0, 0
	for _, r := range all {
		of.first = all[0]
		if k := r - of.first; k < nearFirst {
			of.near |= 1 << k
		}
	}
}

// settle draws sharings until they no longer depend on the first one. It adds some of them to the
// experience x.
func (s *sharing) settle(x *experience) {
	const rounds, taught = 5, 3
	s.surveyOwners(true)
	s.settled = true
	for k := range rounds {
		s.drawOwners()
		s.drawOwners()
		s.surveyOwners(false)
		if k >= rounds-taught {
			s.teach(x, 1./taught, math.MaxInt32)
		}
	}
}

// drawAnswer draws many sharings. The share of draws in which a request owns a call is the
// probability of that link. drawAnswer returns the mean score of the draws, and adds some of them
// to the experience x.
func (s *sharing) drawAnswer(w window, all []Link, x *experience) (score float64) {
	s.had, s.since = make([][]tenure, len(s.calls)), make([]int32, len(s.calls))
	giveRoom(s.had, 1)
	for c := range s.since {
		s.since[c] = int32(s.turn)
	}
	for k := range probabilityDraws {
		s.drawOwners()
		if k%10 == 9 {
			score += s.score() * 10 / probabilityDraws
		}
		if k%20 == 9 {
			s.teach(x, 20./probabilityDraws, math.MaxInt32)
		}
		if k%20 == 19 {
			s.surveyOwners(false)
		}
	}
	for c := range s.calls {
		if t := s.calls[c].from; t < w.begin || t >= w.end {
			continue
		}
		s.countOwners(int32(c))
		b := newBest()
		for _, had := range s.had[c] {
			cause := int32(calls.NoCause)
			if had.owner >= 0 {
				cause = s.requests[had.owner].call
			}
			b.add(cause, float64(had.draws))
		}
		b.sum += 0.5
		all[s.sends[c].call] = b.link()
	}
	s.had = nil
	return score
}

// aloneScore is the score of a call without a cause, compared with the best score that it can have
// in a script.
func (s *sharing) aloneScore(c int32) float64 {
	k := s.calls[c].kind
	return s.m.spontaneous[k] - s.m.best[k]
}

// score returns the logarithm of the probability of the sharing.
func (s *sharing) score() (sum float64) {
	for r, v := range s.scores {
		if sum += v; s.requests[r].to != farFuture {
			sum += s.m.best[s.m.numberOfReply()]
		}
	}
	for r := range s.starts {
		sum -= s.m.overtaking * float64(s.overtakes(int32(r)))
	}
	for c, r := range s.owner {
		if sum += s.m.best[s.calls[c].kind]; r < 0 {
			sum += s.aloneScore(int32(c))
		}
	}
	return sum
}
