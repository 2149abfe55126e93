package coordinator

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// Server is a core with a link to its peers. Any goroutine may use it. Run may be called only once.
type Server struct {
	link        *control.Server
	core        *core
	log         *slog.Logger
	queuedCalls chan func() // functions to call on the core's goroutine

	latest   chan chan *Matrix
	endedRun chan struct{} // closed when Run ends

	answers    sync.WaitGroup // questions that are answered beside the core
	answering  chan struct{}  // has an element for each question that is answered beside the core
	isRenewing atomic.Bool    // such a question has made the core evaluate the fleet again

	mu         sync.Mutex
	lastMatrix *Matrix // the matrix that Matrix last returned
	matrixAt   time.Time
}

// GCPercent is the GOGC value for a program whose main task is a Server. The trains of a large
// fleet take most of the memory and stay for long. With Go's default value, the program would need
// as much memory again for garbage.
const GCPercent = 50

// NewServer makes a server of a core and a link. The caller must call Run.
func NewServer(
	link *control.Server, config Config, store *Store, log *slog.Logger,
) (*Server, error) {
	core, err := newCore(config, store, link, time.Now, log)
	if err != nil {
		return nil, err
	}
	s := &Server{
		link: link, core: core, log: core.log, queuedCalls: make(chan func(), 16),
		latest: make(chan chan *Matrix), endedRun: make(chan struct{}),
		answering: make(chan struct{}, 16),
	}
	core.timeSince, core.inTurns = time.Since, true
	core.background = func(work func() error, then func(error)) {
		go func() {
			err := work()
			select {
			case s.queuedCalls <- func() { then(err) }:
			case <-s.endedRun:
			}
		}()
	}
	return s, nil
}

// Run serves until the context ends, and then writes the remaining changes to disk. It closes
// neither the link nor the store.
func (s *Server) Run(ctx context.Context) error {
	defer s.answers.Wait()
	defer close(s.endedRun)
	kept := newBacklog()
	incoming := make(chan control.Incoming, backlogMessages)
	receiving, stop := context.WithCancel(ctx)
	defer stop()
	var failed error
	go func() {
		defer close(incoming)
		for {
			in, err := s.link.Receive(receiving)
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					failed = err
				}
				return
			}
			if s.answerBeside(in) {
				continue
			}
			if !kept.add(receiving, in.Bytes()) {
				return
			}
			select {
			case incoming <- in:
			case <-receiving.Done():
				return
			}
		}
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	var due dueTime
	for {
		var work func()
		select {
		case in, ok := <-incoming:
			if !ok {
				s.core.flush()
				return failed
			}
			kept.remove(in.Bytes())
			work = func() { s.core.handle(in) }
		case work = <-s.queuedCalls:
		case reply := <-s.latest:
			work = func() { s.core.matrix(func(m *Matrix) { reply <- m }) }
		case <-timer.C:
			work = func() {
				if due.tickDue(time.Now(), s.core.nextTick) {
					s.core.tick()
					due = dueTime{}
				}
			}
		}
		began := time.Now()
		work()
		s.core.wasBusy(time.Since(began))
		timer.Reset(max(0, time.Until(due.after(time.Now(), s.core.nextTick))))
	}
}

// These constants limit how many messages wait for the core while it is busy, as when it writes to
// disk. Meanwhile the server still answers questions that do not need the core.
const (
	backlogMessages = 4096
	backlogBytes    = 16 << 20
)

// backlog counts the bytes of the messages that wait for the core. One goroutine adds, and another
// one removes.
type backlog struct {
	bytes   atomic.Int64
	removed chan struct{} // has an element if something was removed
}

func newBacklog() *backlog { return &backlog{removed: make(chan struct{}, 1)} }

// add waits for room for a message. If the context ends first, it returns false.
func (b *backlog) add(ctx context.Context, bytes int64) bool {
	for b.bytes.Load() > backlogBytes {
		select {
		case <-b.removed:
		case <-ctx.Done():
			return false
		}
	}
	b.bytes.Add(bytes)
	return true
}

func (b *backlog) remove(bytes int64) {
	b.bytes.Add(-bytes)
	select {
	case b.removed <- struct{}{}:
	default:
	}
}

// dueTime says when the core's tick is due. To compute this, the core needs some time for each
// node. So dueTime asks the core only now and then, and spends at most a fiftieth of the time on
// asking.
type dueTime struct {
	due   time.Time
	again time.Time // when to ask the core again
}

// tickDue reports whether the tick is due.
func (d *dueTime) tickDue(now time.Time, next func() time.Time) bool {
	d.after(now, next)
	return !now.Before(d.due)
}

func (d *dueTime) after(now time.Time, next func() time.Time) time.Time {
	if !now.Before(d.again) {
		d.due = next()
		d.again = now.Add(50 * time.Since(now))
	}
	if d.again.Before(d.due) { // a message since then may have made something due earlier
		return d.again
	}
	return d.due
}

// Matrix returns the state of the fleet. The parameter age is the largest age that the state may
// have. After Run has ended, Matrix returns nil.
func (s *Server) Matrix(age time.Duration) *Matrix {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lastMatrix != nil && time.Since(s.matrixAt) <= age {
		return s.lastMatrix
	}
	reply := make(chan *Matrix, 1)
	select {
	case s.latest <- reply:
	case <-s.endedRun:
		return nil
	}
	select {
	case m := <-reply:
		own := *m // other callers may have received the same m
		own.Refused = s.link.Refused()
		s.lastMatrix, s.matrixAt = &own, time.Now()
		return s.lastMatrix
	case <-s.endedRun:
		return nil
	}
}

// Virtual is a server without a clock and a network, for simulations. It makes the same decisions
// as a Server. Its caller passes messages to Handle, and calls Tick when Tick is due. Only one
// goroutine may use it. Equal calls at equal times give equal decisions.
type Virtual struct{ core *core }

// NewVirtual returns a server that gets its time from the function now, and its random choices from
// the function random.
func NewVirtual(
	config Config, store *Store, link Link, now func() time.Time, random *rand.Rand,
) (*Virtual, error) {
	c, err := newCore(config, store, link, now, nil)
	if err != nil {
		return nil, err
	}
	c.random = random.IntN
	return &Virtual{c}, nil
}

// Handle processes a message.
func (v *Virtual) Handle(in control.Incoming) { v.core.handle(in) }

// Tick does everything that is due.
func (v *Virtual) Tick() { v.core.tick() }

// Due returns the time at which Tick is due. Each call of Handle or Tick may change it.
func (v *Virtual) Due() time.Time { return v.core.nextTick() }

// Matrix returns the state of the fleet, which "cprof nodes" shows.
func (v *Virtual) Matrix() (m *Matrix) {
	v.core.matrix(func(of *Matrix) { m = of })
	return m
}

// Related reports whether two nodes were measured with each other in the epochs with which they are
// registered now.
func (v *Virtual) Related(a, b string) bool {
	names := [2]string{min(a, b), max(a, b)}
	return v.core.nodes[a] != nil && v.core.nodes[b] != nil && v.core.wereMeasured(names)
}

// Pair says with what bound a reading of the node r.From can be translated into cycles of the node
// r.Into. The reading is from the middle of the newest train of the node r.From.
func (m *Matrix) Pair(r PairRequest) (PairAnswer, error) { return m.pair(r, time.Time{}) }
