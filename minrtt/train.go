package minrtt

import (
	"errors"
	"net/netip"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

var (
	// ErrNoAnswer is returned for a train that was given up because too many answers were missing:
	// the number in its Config.
	ErrNoAnswer = errors.New("no answer")

	// ErrClockSet is returned for a train during which either node's CLOCK_REALTIME was set, not
	// just steered. The next train may be good again.
	ErrClockSet = errors.New("the clock was set during the train")

	// ErrReplayed is returned when a peer's counter has not advanced since an earlier train: the
	// counter was reset, or someone replays old stamps.
	ErrReplayed = errors.New("peer's stamps are no later than those of an earlier train")
)

// Exchange is one probe and its answer.
type Exchange struct {
	Sequence uint32 // of the probe in its train; 0 is the warm-up, if its first probe was answered

	// User contains the counter readings around the system calls.
	User tscratio.Exchange

	// Best is User with the kernel's stamps wherever they are usable.
	Best tscratio.Exchange

	// Sent, Received, Answered and Returned are the sources of Best's stamps.
	Sent, Received, Answered, Returned Source
}

// Arrival is a probe that arrived but whose exchange is incomplete. The transmit stamp of its
// answer got lost. Or the answer was the last close's, whose transmit stamp is never fetched.
type Arrival struct {
	Sequence       uint32
	Sent, Received tscratio.Interval
}

// Constraint returns the inequality that the arrival proves.
func (a Arrival) Constraint(by tscratio.Starter) tscratio.Constraint {
	out, back := tscratio.Exchange{Sent: a.Sent, Received: a.Received}.Constraints(by)
	if by == tscratio.StartedByB {
		return back // because it is B's packet to A
	}
	return out
}

// Train is the outcome of one train.
type Train struct {
	Peer      netip.AddrPort
	Exchanges []Exchange // complete ones, in the order of their probes
	Arrivals  []Arrival  // of the other probes that arrived, in their order
	Counts    Counts     // of this train alone
}

// User returns the exchanges with the counter readings around the system calls.
func (t Train) User() []tscratio.Exchange {
	es := make([]tscratio.Exchange, len(t.Exchanges))
	for i := range es {
		es[i] = t.Exchanges[i].User
	}
	return es
}

// Best returns the exchanges with the kernel's stamps wherever they are usable.
func (t Train) Best() []tscratio.Exchange {
	es := make([]tscratio.Exchange, len(t.Exchanges))
	for i := range es {
		es[i] = t.Exchanges[i].Best
	}
	return es
}
