package link

import (
	"math"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// A script is what a program did for one request: the calls that it sent, in their order. A model
// says how probable a script is. It sees a request as a chain of events: the request is received,
// calls are sent, their responses are received, the reply is sent. A state is the last event, the
// number of calls of its kind so far, and whether responses are still missing. The state decides
// how probable each next event is, and after which delay.
//
// All probabilities are learnt from the data. No order of calls is given, and delays have no
// parametric form.
type model struct {
	temper   float64
	learnt   bool  // the method learn was called
	unit     int64 // unit of delays, in ns
	requests int   // number of kinds of requests: see requestKind
	kinds    int   // number of kinds of calls: see callKind
	// The following fields have, for each state and each next event, three logarithms: of the
	// event's probability, of the density of its delay, and of the probability of its mark (see the
	// type mark). There is a density for each way in which an event may follow (see the type way).
	next  []float64
	delay []*delayTable
	marks [][marks]float32
	// best has the largest logarithm that each next event can have, with its delay and its mark. It
	// is subtracted from the field next. So a script's score is never above 0, and events can only
	// make it smaller.
	best []float64
	// An event may seem to come before the one that it follows, by at most slack_ns, if moments
	// come from other clocks. So this time is added to all delays: none is negative then.
	slack_ns   int64
	overtaking float64 // see queueCount.overtaking
	rivals     float32 // logarithm of the number of candidates that a call has
	// The following fields are used only by the method walkEvents.
	counts  [64]uint8 // calls of each kind so far
	waiting [64]int32 // calls whose response is still missing
	numbers [64]uint8
	// spontaneous is for calls without a cause: the logarithm of the rate of each kind, per unit.
	spontaneous []float64
}

// These numbers stand for events. One number means that the reply was sent. For each kind of
// request, one number means that the request was received. For each kind of call, there are two
// numbers for the first call, two for the second, and so on: the call was sent, and the call was
// answered.
const (
	eventReplied  = 0
	eventReceived = 1
	perKind       = 6
	mostCount     = 3
)

func (m *model) sentEvent(kind, count int) int {
	return eventReceived + m.requests + perKind*kind + 2*(min(count, mostCount)-1)
}

func (m *model) states() int { return 2 * (eventReceived + m.requests + perKind*m.kinds) }

// The events that can come next have numbers: first the kinds of calls, then the reply, the
// response of a call, and the end.
func (m *model) numberOfReply() int { return m.kinds }
func (m *model) answer() int        { return m.kinds + 1 }
func (m *model) end() int           { return m.kinds + 2 }
func (m *model) nexts() int         { return m.kinds + 3 }

// call has the properties of a send that a script needs.
type call struct {
	from, to int64
	kind     int32
	first    int32  // number of the first candidate
	near     uint64 // has a bit for the first candidate and each of the next requests: 1: candidate
	*acts           // apart, because few scripts need them: so more calls fit into the cache
}

type acts struct{ sent, got act }

// An event is an event of a script. Its number stands for the state before it and for the event
// itself, as in the fields of the model. An event also has the step of its delay, and its mark. The
// step is -1 for a response and for the end, because their delays tell nothing.
type event struct {
	number int32
	step   int16
	of     mark
	way    way
}

// A way says from which moment the delay of an event counts.
type way uint8

const (
	fromLast  way = iota // from the last event of the script
	directly             // the same, but its thread did nothing else since: the delay is short
	fromQueue            // from the last event of its thread: the request waited for the thread
	ways      = iota
)

func (e *event) delayNumber() int { return ways*int(e.number) + int(e.way) }

// walkEvents goes through a script, and appends the script's events to the list that the parameter
// into points to. If into is nil, it returns the script's score instead. If it finds that the score
// is below the number least, it stops, and returns any number below least.
func (m *model) walkEvents(r *request, script []int32, all []call, o *order, least float64,
	into *[]event) (score float64) {
	counts, waiting, numbers := &m.counts, &m.waiting, &m.numbers
	for _, c := range script {
		counts[all[c].kind&63] = 0
	}
	heard := int(r.kind) // kind of the last event, if a message was received; -1: none was
	latest, since, pending := eventReceived+int(r.kind), r.from, 0
	var threads crew
	if o != nil {
		threads.last = r.begin
	}
	isReplied := false
	n, i := m.nexts(), 0
	for score >= least {
		// Among events at the same time, a response comes first, and the reply last.
		at, what := int64(farFuture), -1
		first := -1
		for k := range pending {
			if t := all[waiting[k]].to; t < at {
				at, what, first = t, m.answer(), k
			}
		}
		if i < len(script) && all[script[i]].from < at {
			at, what = all[script[i]].from, int(all[script[i]].kind)
		}
		if !isReplied && r.to != farFuture && r.to < at {
			at, what = r.to, m.numberOfReply()
		}
		if what < 0 {
			what = m.end()
		}
		e := event{int32((2*latest+count(pending > 0))*n + what), -1, noMark, fromLast}
		free := int64(calls.Unknown) // when the thread of the event did something else
		switch what {
		case m.end():
		case m.answer():
			c := waiting[first]
			if o != nil {
				threads.add(all[c].got)
			}
			heard = m.requests + int(all[c].kind)
			latest = m.sentEvent(int(all[c].kind), int(numbers[first])) + 1
			pending--
			waiting[first], numbers[first] = waiting[pending], numbers[pending]
		case m.numberOfReply():
			if o != nil {
				e.of, free = threads.joinEvent(r.reply), r.reply.free
			}
			e.step = m.stepSince(at - since)
			latest, isReplied = eventReplied, true
		default:
			c := script[i]
			if o != nil {
				last := threads.last.index
				e.of, free = threads.joinEvent(all[c].sent), all[c].sent.free
				if e.of != noMark && heard >= 0 {
					e.of += o.choice(heard, last, what, all[c].sent.index)
				}
			}
			heard = -1
			e.step = m.stepSince(at - since)
			i++
			if k := what & 63; counts[k] < 255 {
				counts[k]++
			}
			latest = m.sentEvent(what, int(counts[what&63]))
			if all[c].to != calls.Unknown && pending < len(waiting) {
				waiting[pending], numbers[pending] = c, counts[what&63]
				pending++
			}
		}
		if e.step >= 0 && o != nil && o.threads > 1 {
			e = m.chooseWay(e, at-free, free > since)
		}
		since = at
		if into != nil {
			*into = append(*into, e)
		} else {
			score = m.addScore(score, e)
		}
		if what == m.end() {
			break
		}
	}
	return score
}

// chooseWay finds in which way an event followed. If waited is true, the event's thread did
// something else after the last event of the script, and the parameter before is the time from then
// to the event. Then the request may have waited for the thread. The more probable way is chosen.
func (m *model) chooseWay(e event, before int64, waited bool) event {
	switch plain := e.of.plain(); {
	case plain == markStayed:
		e.way = directly
	case waited && plain != noMark && plain != markWoken && m.learnt:
		queued := e
		queued.way, queued.of = fromQueue, e.of-plain+markQueued
		queued.step = m.stepSince(before)
		if m.addScore(0, queued) > m.addScore(0, e) {
			return queued
		}
	}
	return e
}

// stepSince returns the step of a delay in ns.
func (m *model) stepSince(delay int64) int16 {
	return int16(stepOf((delay + m.slack_ns) / m.unit))
}

// score returns the logarithm of the probability of a script with the given events.
func (m *model) score(all []event) (sum float64) {
	for _, e := range all {
		sum = m.addScore(sum, e)
	}
	return sum
}

// addScore adds the logarithm of the probability of an event to a sum.
func (m *model) addScore(sum float64, e event) float64 {
	sum += m.next[e.number]
	if e.step >= 0 {
		sum += float64(m.delay[e.delayNumber()].log[e.step] + m.marks[e.number][e.of])
	}
	return sum
}

// experience counts what happened in scripts. A model is computed from these counts.
type experience struct {
	m      *model
	next   []float64
	delays []*delays
	marks  [][marks]float32
	queue  queueCount
}

func (m *model) newExperience() *experience {
	n := m.states() * m.nexts()
	return &experience{m: m, next: make([]float64, n), delays: make([]*delays, ways*n),
		marks: make([][marks]float32, n)}
}

// add adds the events of a script.
func (x *experience) add(all []event, weight float64) {
	for _, e := range all {
		x.next[e.number] += weight
		x.marks[e.number][e.of] += float32(weight)
		if e.step < 0 {
			continue
		}
		k := e.delayNumber()
		if x.delays[k] == nil {
			x.delays[k] = &delays{}
		}
		x.delays[k].addStep(int(e.step), float32(weight))
	}
}

// learn computes the model's probabilities from the experience. For a state with little experience,
// it also uses the experience of all states of the same kind of event.
func (m *model) learn(x *experience) {
	const few, fewer = 4, 0.5
	n := m.nexts()
	events := m.states() / 2
	groups := map[int][]int{} // states of the same kind of event
	groupOf := func(event int) int {
		if event < eventReceived+m.requests {
			return min(event, eventReceived)
		}
		event -= eventReceived + m.requests
		return 2 + 2*(event/perKind) + event%2
	}
	for e := range events {
		g := groupOf(e)
		groups[g] = append(groups[g], 2*e, 2*e+1)
	}
	for _, states := range groups {
		pooled := make([]float64, n)
		sum := 0.0
		for next := range n {
			for _, s := range states {
				pooled[next] += x.next[s*n+next]
			}
			sum += pooled[next]
		}
		for next := range n {
			p := (pooled[next] + fewer/float64(n)) / (sum + fewer)
			m.learnMarks(x, states, next)
			for _, s := range states {
				own := 0.0
				for k := range n {
					own += x.next[s*n+k]
				}
				k := s*n + next
				m.next[k] = math.Log((x.next[k] + few*p) / (own + few))
			}
			for w := range ways {
				m.learnDelays(x, states, next, w)
			}
		}
	}
	m.subtractBest()
	m.overtaking = x.queue.overtaking()
	m.learnt = true
}

// unlearntDelays is the table of delays of which nothing was learnt.
var unlearntDelays = logarithms(&broadDensity)

// learnDelays learns the delays of one next event, in each of some states. It looks only at events
// that follow in the way w.
func (m *model) learnDelays(x *experience, states []int, next, w int) {
	const few = 4
	n := m.nexts()
	all := delays{}
	for _, s := range states {
		if d := x.delays[ways*(s*n+next)+w]; d != nil {
			all.n += d.n
			for i := range d.count {
				all.count[i] += d.count[i]
			}
		}
	}
	f, shared := broadDensity, unlearntDelays
	if all.n > 0 {
		f = all.density(&broadDensity, 1)
		shared = logarithms(&f)
	}
	for _, s := range states {
		k := ways*(s*n+next) + w
		m.delay[k] = shared
		if d := x.delays[k]; d != nil {
			own := d.density(&f, few)
			m.delay[k] = logarithms(&own)
		}
	}
}

// subtractBest finds the best logarithms of calls and replies, and subtracts them.
func (m *model) subtractBest() {
	n := m.nexts()
	for next := range m.answer() {
		best := math.Inf(-1)
		for k := next; k < len(m.next); k += n {
			most := m.delay[ways*k].most
			for w := 1; w < ways; w++ {
				most = max(most, m.delay[ways*k+w].most)
			}
			best = max(best, m.next[k]+float64(most))
		}
		m.best[next] = best
		for k := next; k < len(m.next); k += n {
			m.next[k] -= best
		}
	}
}

// expectedMark is the probability of each plain mark as long as nothing was learnt: together, the
// marks that need no wake-ups have the probability 1. expectedTurn is the probability that an event
// that has a choice keeps the order.
const (
	expectedMark = 1 / float32(markWoken-markStayed)
	expectedTurn = 0.95
)

// unlearntMarks are the logarithms of probabilities of marks as long as nothing was learnt.
var unlearntMarks = func() (log [marks]float32) {
	for of := markStayed; of < marks; of++ {
		p := expectedMark
		switch {
		case of > markOvertook:
			p *= 1 - expectedTurn
		case of > markInTurn:
			p *= expectedTurn
		}
		log[of] = float32(math.Log(float64(p)))
	}
	return log
}()

// markCounts has, for each plain mark, how often it was seen. For events that had a choice, it also
// has how often they kept the order, and how often they did not.
type markCounts [markQueued + 1]struct{ all, kept, not float32 }

func (c *markCounts) add(seen *[marks]float32) (sum float32) {
	for of := markStayed; of <= markQueued; of++ {
		kept, not := seen[of+markInTurn], seen[of+markOvertook]
		c[of].all += seen[of] + kept + not
		c[of].kept += kept
		c[of].not += not
		sum += seen[of] + kept + not
	}
	return sum
}

// learnMarks learns how probable each mark of an event is: its plain mark, and whether an event
// with this plain mark keeps the order if it has a choice.
func (m *model) learnMarks(x *experience, states []int, next int) {
	const few = 4
	n := m.nexts()
	var pooled markCounts
	sum := float32(0)
	for _, s := range states {
		sum += pooled.add(&x.marks[s*n+next])
	}
	if sum == 0 {
		for _, s := range states {
			m.marks[s*n+next] = unlearntMarks
		}
		return
	}
	log := func(p float32) float32 { return float32(math.Log(float64(p))) }
	for _, s := range states {
		k := s*n + next
		var c markCounts
		own := c.add(&x.marks[k])
		for of := markStayed; of <= markQueued; of++ {
			a, b := &c[of], &pooled[of]
			p := (b.all + few*expectedMark) / (sum + few)
			plain := log((a.all + few*p) / (own + few))
			q := (b.not + few*(1-expectedTurn)) / (b.kept + b.not + few)
			sum := a.kept + a.not + few
			m.marks[k][of] = plain
			m.marks[k][of+markInTurn] = plain + log((a.kept+few*(1-q))/sum)
			m.marks[k][of+markOvertook] = plain + log((a.not+few*q)/sum)
		}
		// The thread could have been woken after an event of any of several other requests. And any
		// of several requests could have waited for it.
		for _, more := range [...]mark{0, markInTurn, markOvertook} {
			m.marks[k][markForeign+more] -= m.rivals
			m.marks[k][markQueued+more] -= m.rivals
		}
	}
}

// A delayTable has the logarithms of the density in each step, and the largest of them.
type delayTable struct {
	log  [delaySteps]float32
	most float32
}

func logarithms(f *[delaySteps]float64) *delayTable {
	table := &delayTable{most: float32(math.Inf(-1))}
	for i := range f {
		table.log[i] = quickLog(f[i])
		table.most = max(table.most, table.log[i])
	}
	return table
}

// merge adds older experience, multiplied by the weight part.
func (x *experience) merge(old *experience, part float64) {
	x.queue.add(&old.queue, part)
	for k := range x.next {
		x.next[k] += part * old.next[k]
		for of := range old.marks[k] {
			x.marks[k][of] += float32(part) * old.marks[k][of]
		}
	}
	for k, d := range old.delays {
		if d != nil {
			x.delays[k] = &delays{n: part * d.n}
			for i := range d.count {
				x.delays[k].count[i] = float32(part) * d.count[i]
			}
		}
	}
}

func newModel(requests, kinds int, unit int64) *model {
	m := &model{requests: requests, kinds: kinds, unit: unit, spontaneous: make([]float64, kinds)}
	m.next, m.best = make([]float64, m.states()*m.nexts()), make([]float64, m.nexts())
	m.delay = make([]*delayTable, ways*len(m.next))
	m.marks = make([][marks]float32, len(m.next))
	return m
}
