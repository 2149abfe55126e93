package messages

import (
	"errors"
	"slices"
	"sync"

	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Times computes durations between calls, in cycles of the reference. Any number of goroutines may
// use it.
type Times struct {
	reference string
	related   *runs.Times

	mutex sync.Mutex
	ways  map[[2]string]*tscratio.Ways // by the nodes of the two calls

	elsewhen error // the first one that wraps tscratio.ErrBeyondLimit
}

// NewTimes relates the counters of a run's nodes. It ignores o.Each.
func NewTimes(dir *runs.Directory, o Options) (*Times, error) {
	related, err := dir.Times(o.Wander, o.ThirdNodes)
	return &Times{reference: o.Reference, related: related,
		ways: map[[2]string]*tscratio.Ways{}}, err
}

var (
	errUnknown = errors.New("the beginning of the call was not seen")
	errEpoch   = errors.New("the run does not have the epoch of the log")
)

// Transfer returns the time from the beginning of the call that sent a message to the moment when
// the receiving call had the message's last byte.
func (t *Times) Transfer(m *Match) (d tscratio.Duration, err error) {
	begins, known := m.beginning()
	if !known {
		return d, errUnknown
	}
	return t.Between(&begins, &m.Receive)
}

// Parts are the parts of a message's transfer. Each is an interval that contains the truth.
type Parts struct {
	// If Arrived is true, the arrival was seen. Network is the time from the beginning of the
	// sending call to the arrival of the last byte at the receiver's kernel. Waited is the time
	// from then until the receiving call had the last byte.
	Arrived         bool
	Network, Waited tscratio.Duration

	// If Divided is true, Waited is divided, too. Program is the part in which the thread that
	// received the message did something else. Kernel is the other part: the thread was in a system
	// call that waits for messages or receives them.
	Divided         bool
	Kernel, Program tscratio.Duration

	// If Resent is true, TCP sent bytes of the message again. Resending is the time from the
	// beginning of the call that sent the message until TCP last sent bytes again.
	Resent    bool
	Resending tscratio.Duration
}

// Parts divides a message's transfer. If the receiving call also received bytes that came after the
// message, the arrival that was seen is theirs, so Arrived is false.
func (t *Times) Parts(m *Match) (p Parts) {
	r := &m.Receive
	send, known := m.beginning()
	if !known || !m.sender.isTCP() {
		return p
	}
	arrival, end := *r, m.Send.Position+uint64(m.Send.Bytes)
	if m.arrivedLo != 0 && end == r.Position+uint64(r.Bytes) {
		arrival.Lo_cycles, arrival.Hi_cycles = m.arrivedLo, m.arrivedHi
		var err, err2 error
		p.Network, err = t.Between(&send, &arrival)
		p.Waited, err2 = t.Between(&arrival, r)
		if p.Arrived = err == nil && err2 == nil; p.Arrived && m.busy != nil {
			t.divideWait(&p, r, m.busy)
		}
	}
	// Bytes that TCP sent again after the arrival did not delay the message, so they do not count.
	for _, a := range slices.Backward(m.sender.again) {
		resend := m.Send
		resend.Lo_cycles, resend.Hi_cycles = a.lo, a.hi
		if a.position < end && a.after > m.Send.Position && t.mayBeReceiver(&resend, &arrival) {
			var err error
			p.Resending, err = t.Between(&send, &resend)
			p.Resent = err == nil
			break
		}
	}
	return p
}

// divideWait divides the time that a message waited.
func (t *Times) divideWait(p *Parts, r *Call, of *busyTime) {
	if of.cycles > r.Hi_cycles-min(of.slack, r.Hi_cycles) {
		return // the log is not valid
	}
	began, slack := r.Hi_cycles-of.cycles, of.slack
	least, err := t.readings(r, began+slack, r, r.Hi_cycles)
	most, err2 := t.readings(r, began-slack, r, r.Hi_cycles)
	if err != nil || err2 != nil {
		return
	}
	// Neither part is negative or longer than the whole.
	part := func(lo, hi int64) tscratio.Duration {
		d := p.Waited
		d.Lo, d.Hi = max(lo, 0), min(hi, p.Waited.Hi)
		return d
	}
	p.Divided, p.Program = true, part(least.Lo, most.Hi)
	p.Kernel = part(p.Waited.Lo-p.Program.Hi, p.Waited.Hi-p.Program.Lo)
}

// Between returns the time from the moment of one call to the moment of another. The moment of a
// call is between its Lo_cycles and its Hi_cycles.
func (t *Times) Between(first, second *Call) (d tscratio.Duration, err error) {
	least, err := t.readings(first, first.Hi_cycles, second, second.Lo_cycles)
	if err != nil {
		return d, err
	}
	most, err := t.readings(first, first.Lo_cycles, second, second.Hi_cycles)
	if err != nil {
		return d, err
	}
	d.Lo, d.Hi, d.Verdict = least.Lo, most.Hi, max(least.Verdict, most.Verdict)
	return d, nil
}

// mayBeReceiver reports whether a call can have received what another one sent: it did not end
// before the other began.
func (t *Times) mayBeReceiver(send, receive *Call) bool {
	if send.Log.Node == receive.Log.Node && send.Log.Epoch == receive.Log.Epoch {
		return sameNode(send, receive)
	}
	d, err := t.readings(send, send.Lo_cycles, receive, receive.Hi_cycles)
	return err != nil || d.Hi >= 0
}

func (t *Times) readings(first *Call, x uint64, second *Call, y uint64) (d tscratio.Duration,
	err error) {
	from := t.related.Node(first.Log.Node, first.Log.Epoch)
	to := t.related.Node(second.Log.Node, second.Log.Epoch)
	if from == "" || to == "" {
		return d, errEpoch
	}
	if from == t.reference && to == t.reference {
		// The calls are on one node. The field Closure only knows nodes that were measured together
		// with others, so it may not know this node.
		apart, slack := int64(y-x), int64(first.Log.Quantum_cycles+first.Log.CoreSlack_cycles)
		d.Lo, d.Hi = apart-slack, apart+slack
		return d, nil
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	w, known := t.ways[[2]string{from, to}]
	if !known {
		if w, err = t.related.Closure.Ways(t.reference, from, to); err != nil {
			return d, err
		}
		t.ways[[2]string{from, to}] = w
	}
	if d, err = w.Duration(x, y); t.elsewhen == nil && errors.Is(err, tscratio.ErrBeyondLimit) {
		t.elsewhen = err
	}
	return d, err
}

// Elsewhen says why times between nodes are not known, if a relation is of another time than the
// calls. It may be a relation of another run. If all relations are of this time, it returns "".
func (t *Times) Elsewhen() string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.elsewhen == nil {
		return ""
	}
	return t.elsewhen.Error()
}

// At returns an interval of readings of the reference that contains the moment of a call.
func (t *Times) At(c *Call) (at tscratio.Interval, err error) {
	from := t.related.Node(c.Log.Node, c.Log.Epoch)
	if from == "" {
		return at, errEpoch
	}
	if from == t.reference {
		return tscratio.Interval{Lo: c.Lo_cycles, Hi: c.Hi_cycles}, nil
	}
	lo, err := t.related.Closure.Translate(from, t.reference, c.Lo_cycles)
	if err != nil {
		return at, err
	}
	hi, err := t.related.Closure.Translate(from, t.reference, c.Hi_cycles)
	return tscratio.Interval{Lo: lo.Interval.Lo, Hi: hi.Interval.Hi}, err
}
