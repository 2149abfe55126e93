package callgen

import (
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// Options say what to make.
type Options struct {
	Requests int
	// PerSecond is the rate of requests from outside. The requests are independent of each other.
	PerSecond float64
	Seed      uint64
}

// Make makes the calls of an application, with their causes.
func Make(app App, o Options) *calls.Set {
	s := &simulation{
		app: app, random: rand.New(rand.NewPCG(o.Seed, 22)), services: map[string]*service{},
		set: &calls.Set{},
	}
	for name := range app.Services {
		s.set.Places = append(s.set.Places, calls.Place{Program: name})
	}
	slices.SortFunc(s.set.Places, func(a, b calls.Place) int {
		if a.Program < b.Program {
			return -1
		}
		return 1
	})
	for i, p := range s.set.Places {
		s.services[p.Program] = &service{
			Service: app.Services[p.Program], place: int32(i), law: app.Laws[p.Program],
			free: app.Services[p.Program].Threads,
		}
	}
	const start = 1_700_000_000e9
	at := int64(start)
	front := app.Services[app.Front]
	for path := range o.Requests {
		at += int64(s.random.ExpFloat64() / o.PerSecond * 1e9)
		s.at(at, func() {
			s.send(calls.Outside, calls.NoCause, int32(path),
				Target{Service: app.Front, Script: s.random.IntN(len(front.Scripts))}, nil)
		})
	}
	for s.events.Len() > 0 {
		e := heap.Pop(&s.events).(event)
		s.now = e.at
		e.do()
	}
	s.set.Paths = o.Requests
	s.observe()
	s.set.Arrange()
	return s.set
}

// observe removes from the calls what would not be recorded, as the fields of App say.
func (s *simulation) observe() {
	q := s.app.Quantum_us * 1000
	for i := range s.set.Calls {
		c := &s.set.Calls[i]
		if !s.app.Clients || c.Caller == calls.Outside {
			c.Sent_ns, c.Got_ns = calls.Unknown, calls.Unknown
		}
		for _, t := range [4]*int64{&c.Sent_ns, &c.Received_ns, &c.Replied_ns, &c.Got_ns} {
			if *t != calls.Unknown {
				*t -= *t % q
			}
		}
	}
}

type simulation struct {
	app      App
	random   *rand.Rand
	services map[string]*service
	set      *calls.Set
	now      int64 // ns
	events   events
	order    int
}

type service struct {
	Service
	place   int32
	law     Law
	free    int
	waiting []func()
}

func (s *simulation) at(t int64, do func()) {
	s.order++
	heap.Push(&s.events, event{t, s.order, do})
}

func (s *simulation) after(us float64, do func()) { s.at(s.now+int64(us*1000), do) }

// network draws the time that a message takes.
func (s *simulation) network() float64 { return 40 + 30*s.random.ExpFloat64() }

// send makes a call, and calls the function done when the response has arrived.
func (s *simulation) send(from, cause, path int32, t Target, done func()) {
	to := s.services[t.Service]
	n := int32(len(s.set.Calls))
	s.set.Calls = append(s.set.Calls, calls.Call{Caller: from, Callee: to.place, Sent_ns: s.now})
	s.set.Cause, s.set.Path = append(s.set.Cause, cause), append(s.set.Path, path)
	s.after(s.network(), func() {
		s.set.Calls[n].Received_ns = s.now
		serve := func() {
			s.steps(to, n, path, to.Scripts[t.Script], func() {
				s.set.Calls[n].Replied_ns = s.now
				to.release()
				s.after(s.network(), func() {
					s.set.Calls[n].Got_ns = s.now
					if done != nil {
						done()
					}
				})
			})
		}
		if to.free == 0 {
			to.waiting = append(to.waiting, serve)
			return
		}
		to.free--
		serve()
	})
}

func (s *service) release() {
	if len(s.waiting) == 0 {
		s.free++
		return
	}
	next := s.waiting[0]
	s.waiting = s.waiting[1:]
	next()
}

// steps runs the remaining steps of a script, and then the function done.
func (s *simulation) steps(at *service, call, path int32, rest []Step, done func()) {
	if len(rest) == 0 {
		done()
		return
	}
	step := rest[0]
	compute_us := step.Compute_us
	switch at.law {
	case Shifted:
		compute_us *= 0.5 + 0.72*s.random.ExpFloat64()
	case Peaks:
		if s.random.IntN(5) == 0 {
			compute_us *= 5
		}
		compute_us *= math.Exp(step.Spread / 3 * s.random.NormFloat64())
	default:
		compute_us *= math.Exp(step.Spread * s.random.NormFloat64())
	}
	s.after(compute_us, func() {
		pending := 1
		got := func() {
			if pending--; pending == 0 {
				s.steps(at, call, path, rest[1:], done)
			}
		}
		gap := 0.
		for _, t := range step.Calls {
			if s.random.Float64() < t.Skip {
				continue
			}
			gap += 8 + 4*s.random.ExpFloat64()
			then := got
			if t.Async {
				then = nil
			} else {
				pending++
			}
			if s.random.Float64() < t.Retry {
				first := then
				then = func() { s.send(at.place, call, path, t, first) }
			}
			s.after(gap, func() { s.send(at.place, call, path, t, then) })
		}
		got()
	})
}

type event struct {
	at    int64
	order int
	do    func()
}

type events []event

func (e events) Len() int      { return len(e) }
func (e events) Swap(i, k int) { e[i], e[k] = e[k], e[i] }
func (e events) Less(i, k int) bool {
	return e[i].at < e[k].at || e[i].at == e[k].at && e[i].order < e[k].order
}
func (e *events) Push(v any) { *e = append(*e, v.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}
