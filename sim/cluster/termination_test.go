package cluster

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/sim"
)

// endOfRun is a simulation near its end: processes send each other work over a network with random
// delays, while the leader asks whether they are done.
type endOfRun struct {
	t         *testing.T
	s         sim.Stream
	now       int
	events    []event
	master    *terminationLeader
	processes []*process

	accepted, done, refused int
}

type event struct {
	at int
	do func()
}

type process struct {
	terminationMember
	reported bool     // the process has reported that it is idle, and has got no work since
	resend   []func() // sends again what others refused
}

func (r *endOfRun) after(delay int, do func()) {
	r.events = append(r.events, event{r.now + delay, do})
}

// afterDelay runs a function after the delay of a message.
func (r *endOfRun) afterDelay(do func()) { r.after(1+r.s.Int(30), do) }

// giveWork hands work from outside to a process. It reports whether the process accepted it.
func (r *endOfRun) giveWork(i, hops int) bool {
	p := r.processes[i]
	if !p.acceptWork() {
		r.refused++
		return false
	}
	r.accepted++
	p.reported = false
	r.afterDelay(func() { // the process works
		p.work--
		r.done++
		for range r.s.Int(3) {
			if hops > 0 {
				p.unanswered++
				r.sendWork(i, r.s.Int(len(r.processes)), hops-1)
			}
		}
		r.report(i)
	})
	return true
}

// sendWork sends work from one process to another, until the receiver accepts it.
func (r *endOfRun) sendWork(from, to, hops int) {
	p := r.processes[from]
	r.afterDelay(func() {
		ok := r.giveWork(to, hops)
		r.afterDelay(func() { // the answer
			p.unanswered--
			if !ok {
				p.kept++
				p.resend = append(p.resend, func() {
					p.kept--
					p.unanswered++
					r.sendWork(from, to, hops)
				})
				if !p.prepared { // goOn was faster than the answer
					r.again(from)
				}
			}
			r.report(from)
		})
	})
}

func (r *endOfRun) again(i int) {
	p := r.processes[i]
	all := p.resend
	p.resend = nil
	for _, send := range all {
		send()
	}
}

func (r *endOfRun) report(i int) {
	p := r.processes[i]
	if !p.mayHaveWork() && !p.prepared && !p.reported {
		p.reported = true
		r.afterDelay(func() { r.sendOrder(r.master.reportIdle(i)) })
	}
}

// sendOrder sends an order to all processes.
func (r *endOfRun) sendOrder(o memberOrder) {
	if o == nothing {
		return
	}
	for i, p := range r.processes {
		r.afterDelay(func() {
			ok := p.handleOrder(o)
			switch o {
			case prepareOrder:
				r.afterDelay(func() { r.sendOrder(r.master.handleAnswer(i, ok)) })
			case goOn:
				p.reported = false
				r.again(i)
				r.report(i)
			}
		})
	}
}

func (r *endOfRun) run() {
	for step := 0; len(r.events) > 0; step++ {
		first := 0
		for i, e := range r.events {
			if e.at < r.events[first].at {
				first = i
			}
		}
		e := r.events[first]
		r.events = append(r.events[:first], r.events[first+1:]...)
		r.now = e.at
		e.do()
		if step > 100_000 {
			r.t.Fatal("the simulation does not end")
		}
	}
}

// TestBarTermination hands work from outside to processes while the leader asks whether they are
// done. No work may be lost, whatever the order of messages.
func TestBarTermination(t *testing.T) {
	refused, races := 0, 10_000/seed.Share()
	for n := range uint64(races) {
		r := &endOfRun{t: t, s: sim.NewStream(n, 0)}
		for range 2 + r.s.Int(4) {
			r.processes = append(r.processes, &process{})
		}
		r.master = newMaster(len(r.processes))
		for i := range r.processes {
			if r.s.Int(2) == 0 {
				r.giveWork(i, 4)
			}
			r.report(i)
		}
		for range 3 {
			r.after(20+r.s.Int(120), func() { r.giveWork(r.s.Int(len(r.processes)), 2) })
		}
		r.run()
		for i, p := range r.processes {
			if !p.ended || p.mayHaveWork() {
				t.Errorf("race %d: process %d at the end: %+v", n, i, p.terminationMember)
			}
		}
		if r.done != r.accepted || !r.master.ended {
			t.Fatalf("race %d: %d pieces of work done, %d accepted", n, r.done, r.accepted)
		}
		refused += r.refused
	}
	if refused < races/10 {
		t.Errorf("only %d pieces of work came while processes were prepared", refused)
	}
	proof.Check(t, proof.Bar{Name: "races of work with the end that lost no work",
		Figure: float64(races), Limit: 10_000 / float64(seed.Share()), AtLeast: true,
		Unit: "races"})
}

// In TestMemberLeaves, a member leaves when all other members have reported that they are idle, so
// that the leader waits only for this member.
func TestMemberLeaves(t *testing.T) {
	m := newMaster(3)
	for member := range 2 {
		if o := m.reportIdle(member); o != nothing {
			t.Fatalf("order %d while member 2 has work", o)
		}
	}
	if o := m.handleLeave(); o != prepareOrder {
		t.Fatalf("order %d after member 2 left", o)
	}
	if o := m.handleAnswer(0, true); o != nothing {
		t.Fatalf("order %d before member 1 answered", o)
	}
	if o := m.handleAnswer(1, true); o != terminateOrder {
		t.Errorf("order %d at the end", o)
	}
}
