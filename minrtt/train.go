package minrtt

import (
	"errors"
	"net/netip"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

var (
	// ErrNoAnswer is returned for a train that the prober gave up because Config.Attempts
	// successive answers were missing.
	ErrNoAnswer = errors.New("no answer")

	// ErrClockSet is returned if CLOCK_REALTIME of either node was set during the train, not just
	// steered. The next train may succeed.
	ErrClockSet = errors.New("the clock was set during the train")

	// ErrReplayed is returned if a peer's counter has not advanced since an earlier train. Either
	// the counter was reset, or someone replays old stamps.
	ErrReplayed = errors.New("peer's stamps are no later than those of an earlier train")
)

// Exchange is one probe and its answer.
type Exchange struct {
	// Sequence is the number of the probe in its train. Number 0 is the warm-up: the exchange of
	// the first open, if that was answered.
	Sequence uint32

	// User contains the user stamps: counter readings around the system calls.
	User tscratio.Exchange

	// Best is User, but with the kernel's stamps where they can be used.
	Best tscratio.Exchange

	// Sent, Received, Answered and Returned are the sources of Best's stamps.
	Sent, Received, Answered, Returned Source
}

// Arrival is a probe that was answered, but whose exchange is incomplete, because the answer's
// transmit stamp is missing. Either that stamp got lost, or the probe is the last close. The prober
// never fetches the transmit stamp of the answer to the last close.
type Arrival struct {
	Sequence       uint32
	Sent, Received tscratio.Interval
}

// Constraint returns the inequality that the arrival proves.
func (a Arrival) Constraint(by tscratio.Starter) tscratio.Constraint {
	out, back := tscratio.Exchange{Sent: a.Sent, Received: a.Received}.Constraints(by)
	if by == tscratio.StartedByB {
		return back // a packet from B to A proves the other kind of constraint
	}
	return out
}

// Train is the outcome of one train.
type Train struct {
	Peer      netip.AddrPort
	Exchanges []Exchange // complete exchanges, in the order of their probes
	Arrivals  []Arrival  // the other answered probes, in their order
	Meetings  []Meeting  // what both nodes read on a clock that they share

	// ClocksDiffer says that the two nodes read clocks of one name, but that no single clock can
	// show what they read. Then there are no Meetings.
	ClocksDiffer bool

	Counts Counts // packets of this train alone
}

// User returns the exchanges with user stamps.
func (t Train) User() []tscratio.Exchange {
	es := make([]tscratio.Exchange, len(t.Exchanges))
	for i := range es {
		es[i] = t.Exchanges[i].User
	}
	return es
}

// Best returns the exchanges with the kernel's stamps where they can be used.
func (t Train) Best() []tscratio.Exchange {
	es := make([]tscratio.Exchange, len(t.Exchanges))
	for i := range es {
		es[i] = t.Exchanges[i].Best
	}
	return es
}
