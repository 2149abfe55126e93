package simrun

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
)

// Event is something that happened to a tuple, whether or not a log shows it.
type Event struct {
	Tuple  *Tuple
	Point  string // actor/point
	Node   int
	Time   uint64
	Causes []*Event // the tuple's events directly before: several where branches meet
	Logged bool
}

// Tuple is one tuple. Other tuples may have its id.
type Tuple struct {
	ID      uint64
	Events  []*Event
	Parents []*Tuple // the tuples that it was made of
	Renamed *Event   // the last event under its previous id; nil: no operator gave it another id
}

// Job is a random job and what truly happened in it.
type Job struct {
	Nodes    []Node
	Channels []Channel // what was logged
	Edges    [][2]string
	Tuples   []*Tuple

	Reused    bool // some tuples share an id
	Colliding bool // two programs use the same ids
	Missing   bool // the logs of a node are missing
	Lossy     bool // logs lack events, and not all of them lack the events of the same ids
}

// Elapsed is the true time between two events, in cycles of the first node. Because of rounding, it
// may be wrong by one cycle.
func (j *Job) Elapsed(from, to *Event) int64 {
	n := j.Nodes[0]
	n.Quantum = 1
	return int64(n.Reading(to.Time) - n.Reading(from.Time))
}

const ms = Hz / 1000

// shape says what happens in a job.
type shape struct {
	branches    []int  // the number of actors on each branch; one branch is no fork
	quiet       []bool // the actors of the branch log only what they send
	eachArrival bool   // the join logs each arrival, not only the last
	side        bool   // a copy of each tuple goes elsewhere, and does not come back
	detour      bool   // some tuples take another way to the branches
	window      int    // number of tuples that become one; 0: none do
	past        bool   // every other tuple bypasses the window
	programs    int    // number of programs that send tuples
	colliding   bool   // the programs use the same ids
	filter      uint64 // one tuple in this many is dropped on purpose; 0: none
	renaming    bool   // parse and detour send tuples on under other ids
	forking     bool   // parse sometimes makes two tuples of one
	ending      bool   // parse and detour also log the end of their work on a tuple, after sending

	lose, repeat, resend float64
	step                 func() uint64 // a random time
}

type jobMaker struct {
	*Job
	shape
	rng     *rand.Rand
	where   map[string]int
	index   map[string]int
	edges   map[[2]string]bool
	events  [][]*Event // events, by channel
	arrived []*Event   // events that arrived at the window
	missing int        // the node whose logs are missing, or -1
	links   []Channel  // the links that operators logged
	renamed uint64     // number of ids that operators gave to tuples
}

// RandomJob makes a random job, in which anything may happen together: forks, joins, windows and
// windows of windows, detours, filters, losses, repeated events, ids that are sent again, and ids
// that two programs use. If thin is true, logs may lack events, because events were sampled,
// because a ring was full, or because a node's logs are missing.
func RandomJob(rng *rand.Rand, thin bool) *Job { return randomJob(rng, thin, false) }

func randomJob(rng *rand.Rand, thin, renaming bool) *Job {
	m := &jobMaker{rng: rng, where: map[string]int{}, index: map[string]int{},
		edges: map[[2]string]bool{}, missing: -1, Job: &Job{Nodes: Nodes(rng, 2+rng.IntN(3))}}
	if rng.IntN(4) == 0 {
		for i := range m.Nodes {
			m.Nodes[i].Quantum = 26
		}
	}
	m.shape = randomShape(rng)
	if m.renaming = renaming; renaming {
		m.forking, m.ending, m.detour = rng.IntN(4) == 0, rng.IntN(2) == 0, rng.IntN(2) == 0
		if rng.IntN(3) > 0 { // otherwise, most jobs' ids repeat so much that they prove nothing
			m.repeat, m.resend, m.colliding = 0, 0, false
		}
	}
	m.Colliding = m.colliding
	now := uint64(Hz)
	gap := ms/10 + rng.Uint64N(ms/2)
	for i := range uint64(200 + rng.IntN(300)) {
		now += gap/2 + rng.Uint64N(gap)
		program := int(i) % m.programs
		id := i/uint64(m.programs) + 1
		if !m.colliding {
			id |= uint64(program) << 40
		}
		m.send(id, program, now)
		if rng.Float64() < m.resend {
			m.send(id, program, now+rng.Uint64N(20*ms))
			m.Reused = true
		}
	}
	m.Reused = m.Reused || m.colliding
	m.makeWindows()
	for c := range m.Channels {
		slices.SortStableFunc(m.events[c], func(a, b *Event) int {
			return cmp.Compare(a.Time, b.Time)
		})
	}
	if thin {
		m.thin()
	}
	m.keep(thin && rng.IntN(4) == 0)
	for e := range m.edges {
		m.Edges = append(m.Edges, e)
	}
	slices.SortFunc(m.Edges, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return m.Job
}

func randomShape(rng *rand.Rand) (s shape) {
	one := func(in int) bool { return rng.IntN(in) == 0 }
	for range 1 + rng.IntN(3) {
		s.branches, s.quiet = append(s.branches, 1+rng.IntN(2)), append(s.quiet, one(3))
	}
	s.eachArrival, s.side, s.detour = one(2), one(4), one(3)
	if one(2) {
		s.window, s.past = 2+rng.IntN(4), one(3)
	}
	if s.programs = 1; one(2) {
		s.programs, s.colliding = 2, one(2)
	}
	if one(3) {
		s.filter = 2 + rng.Uint64N(5)
	}
	for _, p := range []*float64{&s.lose, &s.repeat, &s.resend} {
		if one(2) {
			*p = rng.Float64() * 0.03
		}
	}
	// Each branch is the slowest one for some tuples.
	least, scale := uint64(ms/20), 15
	if one(3) { // often shorter than a bound
		least, scale = 100, 6
	}
	s.step = func() uint64 { return least + rng.Uint64N(1<<(scale+rng.IntN(10))) }
	return s
}

// The method log notes an event. The event's causes are events of the same tuple.
func (m *jobMaker) log(t *Tuple, actor string, instance int, point string, time uint64,
	causes ...*Event) *Event {
	name := fmt.Sprintf("%s#%d/%s", actor, instance, point)
	c, known := m.index[name]
	if !known {
		place := fmt.Sprint(actor, instance)
		node, placed := m.where[place]
		if !placed {
			node = m.rng.IntN(len(m.Nodes))
			m.where[place] = node
		}
		c = len(m.Channels)
		m.index[name] = c
		m.Channels = append(m.Channels, Channel{Node: node, Name: name})
		m.events = append(m.events, nil)
	}
	e := &Event{t, actor + "/" + point, m.Channels[c].Node, time, causes, true}
	t.Events, m.events[c] = append(t.Events, e), append(m.events[c], e)
	for _, from := range causes {
		if from.Point != e.Point {
			m.edges[[2]string{from.Point, e.Point}] = true
		}
	}
	return e
}

func (m *jobMaker) lost() bool { return m.rng.Float64() < m.lose }

// send sends a tuple through the job.
func (m *jobMaker) send(id uint64, program int, at uint64) {
	t := &Tuple{ID: id}
	m.Tuples = append(m.Tuples, t)
	from := m.log(t, "source", program, "send", at)
	next := func(actor string, instance int, point string) {
		from = m.log(t, actor, instance, point, from.Time+m.step(), from)
	}
	if m.lost() {
		return
	}
	next("parse", int(id%3)%2, "recv")
	if m.rng.Float64() < m.repeat {
		m.log(t, "parse", int(id%3)%2, "recv", from.Time+m.step(), from.Causes...)
	}
	if m.filter > 0 && id*0x9e3779b97f4a7c15>>32%m.filter == 0 {
		if m.ending {
			next("parse", int(id%3)%2, "end")
		}
		return
	}
	leave := func(actor string, instance int) {
		if m.renaming {
			from = m.rename(from, actor, instance)
			t = from.Tuple
		} else {
			next(actor, instance, "send")
		}
	}
	leave("parse", int(id%3)%2)
	if m.detour && id%4 == 1 {
		if m.lost() {
			return
		}
		next("detour", 0, "recv")
		leave("detour", 0)
	}
	if m.side {
		// The data must show that side/recv is before the join in some tuples and after it in
		// others.
		m.log(t, "side", 0, "recv", from.Time+m.step()+m.rng.Uint64N(12*m.step()), from)
	}
	var sent []*Event // the last event of each branch that arrives
	var times []uint64
	for b, actors := range m.branches {
		if e := m.branch(t, from, b, actors); e != nil {
			sent, times = append(sent, e), append(times, e.Time+m.step())
		}
	}
	m.join(t, sent, times)
}

// branch sends a copy of a tuple over a branch. It returns the copy's last event, or nil if the
// copy is lost.
func (m *jobMaker) branch(t *Tuple, from *Event, b, actors int) *Event {
	for a := range actors {
		actor := fmt.Sprintf("b%d-%d", b, a)
		if m.lost() {
			return nil
		}
		if !m.quiet[b] {
			from = m.log(t, actor, 0, "recv", from.Time+m.step(), from)
		}
		from = m.log(t, actor, 0, "send", from.Time+m.step(), from)
	}
	if m.lost() {
		return nil
	}
	return from
}

// join joins the copies of a tuple. If some are lost, the tuple goes no further.
func (m *jobMaker) join(t *Tuple, sent []*Event, times []uint64) {
	var last *Event
	for i, e := range sent {
		if !m.eachArrival {
			continue
		}
		here := m.log(t, "join", 0, "recv", times[i], e)
		if last == nil || here.Time > last.Time {
			last = here
		}
		if m.rng.Float64() < m.repeat {
			m.log(t, "join", 0, "recv", times[i]+m.step(), e)
		}
	}
	if len(sent) < len(m.branches) {
		return
	}
	causes := sent
	if m.eachArrival { // the last arrival is where the branches meet
		last.Causes = sent
		causes = []*Event{last}
	}
	start := m.log(t, "join", 0, "start", slices.Max(times)+m.step(), causes...)
	end := m.log(t, "join", 0, "end", start.Time+m.step(), start)
	if m.lost() {
		return
	}
	if m.window > 0 && (!m.past || t.ID%2 == 0) {
		m.arrived = append(m.arrived, m.log(t, "window", 0, "recv", end.Time+m.step(), end))
		return
	}
	m.log(t, "sink", 0, "recv", end.Time+m.step(), end)
}

// makeWindows makes new tuples of those that arrived at the window.
func (m *jobMaker) makeWindows() {
	slices.SortStableFunc(m.arrived, func(a, b *Event) int { return cmp.Compare(a.Time, b.Time) })
	var before *Tuple
	for n := uint64(0); m.window > 0 && len(m.arrived) >= m.window; n++ {
		t := &Tuple{ID: 1<<62 | n}
		for _, e := range m.arrived[:m.window] {
			t.Parents = append(t.Parents, e.Tuple)
		}
		if before != nil && m.rng.IntN(10) == 0 {
			t.Parents = append(t.Parents, before)
		}
		for _, p := range t.Parents {
			m.link(p, t, "window", 0)
		}
		e := m.log(t, "window", 0, "send", m.arrived[m.window-1].Time+m.step())
		m.Tuples, before, m.arrived = append(m.Tuples, t), t, m.arrived[m.window:]
		if !m.lost() {
			m.log(t, "sink", 0, "recv", e.Time+m.step(), e)
		}
	}
}

// link logs that an operator made the tuple child from the tuple parent.
func (m *jobMaker) link(parent, child *Tuple, actor string, instance int) {
	name := fmt.Sprintf("%s#%d/link", actor, instance)
	i := slices.IndexFunc(m.links, func(c Channel) bool { return c.Name == name })
	if i < 0 {
		i = len(m.links)
		m.links = append(m.links, Channel{Node: m.where[fmt.Sprint(actor, instance)], Name: name,
			Handler: "link"})
	}
	m.links[i].Records = append(m.links[i].Records,
		Record{ID: parent.ID, Child: child.ID, IsLink: true})
}

// thin makes some channels lack events.
func (m *jobMaker) thin() {
	lacking := func(c int, handler string, keep func(i int, e *Event) bool) {
		dropped := uint64(0)
		for i, e := range m.events[c] {
			dropped += 1 - b2i(keep(i, e))
		}
		if dropped == uint64(len(m.events[c])) {
			return // a channel that keeps nothing has no log
		}
		for i, e := range m.events[c] {
			e.Logged = keep(i, e)
		}
		if m.Channels[c].Handler = handler; handler == "" {
			m.Channels[c].Dropped = dropped
		}
	}
	byID := func(c int, x, y uint64) {
		lacking(c, fmt.Sprintf("xoy x=%d y=%d", x, y), func(_ int, e *Event) bool {
			return e.Tuple.ID%y < x
		})
	}
	alike := m.rng.IntN(5) == 0
	m.Lossy = !alike
	most, middle := m.rng.IntN(4), m.rng.IntN(2) == 0
	for _, c := range m.rng.Perm(len(m.Channels)) {
		point := m.events[c][0].Point
		end := point == "source/send" || point == "sink/recv" || point == "window/recv"
		if alike {
			byID(c, 3, 4)
		} else if most > 0 && !(middle && end) {
			most--
			n := len(m.events[c])
			from := m.rng.IntN(n + 1)
			to := from + m.rng.IntN(n-from+1)
			switch m.rng.IntN(4) {
			case 0:
				byID(c, 3, 4)
			case 1:
				byID(c, 1, 2)
			case 2:
				lacking(c, "downsample n=3", func(i int, _ *Event) bool { return i%3 == 0 })
			case 3:
				lacking(c, "", func(i int, _ *Event) bool { return i < from || i >= to })
			}
		}
	}
	if missing := m.rng.IntN(6 * len(m.Nodes)); missing < len(m.Nodes) {
		m.missing, m.Missing, m.Lossy = missing, true, true
	}
}

func b2i(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// keep makes the records of the channels. If drop is true, some links are lost.
func (m *jobMaker) keep(drop bool) {
	for c, events := range m.events {
		for _, e := range events {
			if e.Logged = e.Logged && e.Node != m.missing; e.Logged {
				m.Channels[c].Records = append(m.Channels[c].Records,
					Record{Time: e.Time, ID: e.Tuple.ID})
			}
		}
	}
	for _, kept := range m.links {
		if all := kept.Records; drop {
			kept.Records = all[:m.rng.IntN(len(all))]
			kept.Dropped = uint64(len(all) - len(kept.Records))
		}
		m.Channels = append(m.Channels, kept)
	}
	m.Channels = slices.DeleteFunc(m.Channels, func(c Channel) bool {
		return c.Node == m.missing
	})
}
