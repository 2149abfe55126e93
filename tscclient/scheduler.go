package tscclient

import (
	"fmt"
	"math"
	"time"
)

// Budget limits the trains that a client runs on its own. The client saves the unused part of its
// budget, up to the budget of one second. So in any period, it exceeds a limit by at most these
// savings and one train.
type Budget struct {
	// TrainsPerSecond is the limit for all peers together. If it is 0, there are no trains.
	TrainsPerSecond float64

	// CPUShare is the part of one core that the node's own trains may use. It limits the CPU time
	// of the thread that runs the trains. It does not limit the time for answers to other nodes,
	// because the budgets of these nodes do. If CPUShare is 0, there is no limit.
	CPUShare float64

	// BytesPerSecond limits the bytes that the node's own trains send and receive, with IP and UDP
	// headers. If it is 0, there is no limit.
	BytesPerSecond float64
}

// DefaultBudget returns two trains a second, at most 0.3 % of a core, and 20,000 bytes a second.
func DefaultBudget() Budget {
	return Budget{TrainsPerSecond: 2, CPUShare: 0.003, BytesPerSecond: 20_000}
}

// Validate returns an error that names the first invalid limit.
func (b Budget) Validate() error {
	for _, limit := range []struct {
		name  string
		value float64
		most  float64
	}{
		{"trains per second", b.TrainsPerSecond, 10_000},
		{"CPU share", b.CPUShare, 1},
		{"bytes per second", b.BytesPerSecond, 1e10},
	} {
		if !(limit.value >= 0 && limit.value <= limit.most) {
			return fmt.Errorf("budget: %s of %g is not between 0 and %g",
				limit.name, limit.value, limit.most)
		}
	}
	return nil
}

// Cost is what a train used of the budget.
type Cost struct {
	CPU   time.Duration
	Bytes uint64
}

// Pace says how often a peer is probed if the budget allows.
type Pace struct {
	// Target is a bound that is good enough. A pair whose bound is smaller than Target is probed
	// once every Slowest. A pair whose bound is k times as wide as Target is probed k times every
	// Slowest, but at most once every Fastest.
	Target           time.Duration
	Fastest, Slowest time.Duration
}

// DefaultPace returns a target of 0.5 µs and a train every 0.25 to 2 s. With these values, if the
// budget suffices, each window of ±10 s contains at least ten trains.
func DefaultPace() Pace {
	return Pace{
		Target:  500 * time.Nanosecond,
		Fastest: 250 * time.Millisecond, Slowest: 2 * time.Second,
	}
}

// Validate returns an error that names the invalid fields.
func (p Pace) Validate() error {
	if p.Target <= 0 || p.Fastest <= 0 || p.Slowest < p.Fastest {
		return fmt.Errorf("pace: target %v, a train every %v to %v: "+
			"want all positive, and the slowest not faster than the fastest",
			p.Target, p.Fastest, p.Slowest)
	}
	return nil
}

// trainInterval returns the time from one train with a peer to the next.
func (p Pace) trainInterval(halfWidth time.Duration) time.Duration {
	if halfWidth <= p.Target {
		return p.Slowest
	}
	scaled := float64(p.Slowest) * float64(p.Target) / float64(halfWidth)
	return max(p.Fastest, time.Duration(scaled))
}

// unknownBound is the bound of a pair without a relation.
const unknownBound = time.Duration(math.MaxInt64)

// probeScheduler decides which peer to probe next, and when. It reads no clock: its caller passes
// the time, which must not go back. Only one goroutine may use it at a time.
//
// Every peer has a wanted time between its trains (the field interval of turn), which follows from
// its pair's bound (Pace). For each peer, the scheduler divides the time since the peer's last
// train by this wanted time. The peer with the largest quotient is next. If the budget suffices,
// each peer is probed as often as wanted. If not, all peers wait longer by the same factor. No peer
// waits for ever, because its quotient grows as long as it waits.
type probeScheduler struct {
	budget Budget
	pace   Pace
	peers  map[string]*turn
	order  []*turn // in the order of setPeers; of peers with equal quotients, the first is next

	begun              bool
	at                 time.Time // when the balances were last brought up to date
	trains, cpu, bytes limitBalance
}

type turn struct {
	name     string
	tried    bool
	last     time.Time
	interval time.Duration
}

// limitBalance is how much of one limit may still be spent. It grows with time. One train may make
// it negative, because the cost of a train is known only at its end.
type limitBalance struct {
	perSecond, most, have float64
	limited               bool
}

func newBalance(perSecond, least float64) limitBalance {
	most := max(perSecond, least)
	return limitBalance{perSecond: perSecond, most: most, have: most, limited: true}
}

func (b *limitBalance) top(passed time.Duration) {
	b.have = min(b.most, b.have+b.perSecond*passed.Seconds())
}

// waitUntil returns the time until the balance has grown to a wanted amount.
func (b *limitBalance) waitUntil(want float64) time.Duration {
	if !b.limited || b.have >= want {
		return 0
	}
	return time.Duration(math.Ceil((want - b.have) / b.perSecond * 1e9))
}

// newScheduler returns a scheduler without peers.
func newScheduler(budget Budget, pace Pace) (*probeScheduler, error) {
	if err := budget.Validate(); err != nil {
		return nil, err
	}
	if err := pace.Validate(); err != nil {
		return nil, err
	}
	s := &probeScheduler{budget: budget, pace: pace, peers: map[string]*turn{}}
	s.trains = newBalance(budget.TrainsPerSecond, 1)
	if budget.CPUShare > 0 {
		s.cpu = newBalance(budget.CPUShare*1e9, 0)
	}
	if budget.BytesPerSecond > 0 {
		s.bytes = newBalance(budget.BytesPerSecond, 0)
	}
	return s, nil
}

// setPeers sets the peers to probe. A peer that was already in the previous list keeps its interval
// and the time of its last train.
func (s *probeScheduler) setPeers(names []string) {
	peers, order := map[string]*turn{}, []*turn(nil)
	for _, name := range names {
		if peers[name] != nil {
			continue
		}
		t := s.peers[name]
		if t == nil {
			t = &turn{name: name, interval: s.pace.trainInterval(unknownBound)}
		}
		peers[name], order = t, append(order, t)
	}
	s.peers, s.order = peers, order
}

// nextPeer returns the peer whose turn it is. If it is no peer's turn, it returns how long to wait.
// If there are no peers, or if the budget allows no trains, the wait is an hour: the caller need
// not ask again until something changes.
func (s *probeScheduler) nextPeer(now time.Time) (peer string, wait time.Duration) {
	const never = time.Hour
	if len(s.order) == 0 || s.budget.TrainsPerSecond == 0 {
		return "", never
	}
	s.top(now)
	if wait := max(s.trains.waitUntil(1), s.cpu.waitUntil(1), s.bytes.waitUntil(1)); wait > 0 {
		return "", min(wait, never)
	}
	var best *turn
	var bestOverdue float64
	wait = never
	for _, t := range s.order {
		if !t.tried {
			return t.name, 0
		}
		since := now.Sub(t.last)
		if since < t.interval {
			wait = min(wait, t.interval-since)
			continue
		}
		if overdue := float64(since) / float64(t.interval); best == nil || overdue > bestOverdue {
			best, bestOverdue = t, overdue
		}
	}
	if best == nil {
		return "", wait
	}
	return best.name, 0
}

// noteBegin records that a train with a peer begins.
func (s *probeScheduler) noteBegin(peer string, now time.Time) {
	s.top(now)
	s.trains.have--
	if t := s.peers[peer]; t != nil {
		t.tried, t.last = true, now
	}
}

// noteEnd records the cost of a train, and the pair's bound after the train. If the pair has no
// bound, known is false.
func (s *probeScheduler) noteEnd(
	peer string, now time.Time, cost Cost, halfWidth time.Duration, known bool,
) {
	s.top(now)
	s.cpu.have -= float64(cost.CPU)
	s.bytes.have -= float64(cost.Bytes)
	if !known {
		halfWidth = unknownBound
	}
	if t := s.peers[peer]; t != nil {
		t.interval = s.pace.trainInterval(halfWidth)
	}
}

// noteFailure records that a train with a peer failed. The peer is then probed at the slowest
// interval, so that a dead peer does not use up the budget of living peers.
func (s *probeScheduler) noteFailure(peer string, now time.Time, cost Cost) {
	s.noteEnd(peer, now, cost, 0, true)
}

func (s *probeScheduler) top(now time.Time) {
	if !s.begun {
		s.begun, s.at = true, now
	}
	if passed := now.Sub(s.at); passed > 0 {
		s.trains.top(passed)
		s.cpu.top(passed)
		s.bytes.top(passed)
		s.at = now
	}
}
