package tscratio

import (
	"errors"
	"fmt"
)

// ErrImpossible is the error for an exchange with impossible stamps: two counters that only run
// forwards cannot show them.
var ErrImpossible = errors.New("impossible exchange")

// Exchange is one probe and its answer: four stamps in the order in which they happened. Each stamp
// is an interval that contains the true reading, because few stamps are single readings. A kernel
// stamp, for example, is known only to lie between two readings.
//
// Sent and Returned are readings of the counter of the starter, the node that sends the probe.
// Received and Answered are readings of the answerer's counter.
type Exchange struct {
	Sent     Interval // the probe leaves the starter
	Received Interval // the probe arrives at the answerer
	Answered Interval // the answer leaves the answerer
	Returned Interval // the answer arrives at the starter
}

// RoundTrip_cycles returns the longest time that the exchange can have taken, in the starter's
// cycles.
func (e Exchange) RoundTrip_cycles() uint64 { return down(e.Returned.Hi, e.Sent.Lo) }

// Check returns an error that wraps ErrImpossible if the stamps contradict each other. Stamps do so
// if an interval is empty, or if an effect comes before its cause on one node by more than the
// node's core slack.
func (e Exchange) Check(starterSlack_cycles, answererSlack_cycles uint64) error {
	for _, s := range [...]struct {
		name string
		iv   Interval
	}{{"sent", e.Sent}, {"received", e.Received}, {"answered", e.Answered},
		{"returned", e.Returned}} {
		if !s.iv.Valid() {
			return fmt.Errorf("check exchange: %s in %v, which holds nothing: %w",
				s.name, s.iv, ErrImpossible)
		}
	}
	if up(e.Returned.Hi, starterSlack_cycles) < e.Sent.Lo {
		return fmt.Errorf("check exchange: returned in %v before sent in %v: %w",
			e.Returned, e.Sent, ErrImpossible)
	}
	if up(e.Answered.Hi, answererSlack_cycles) < e.Received.Lo {
		return fmt.Errorf("check exchange: answered in %v before received in %v: %w",
			e.Answered, e.Received, ErrImpossible)
	}
	return nil
}

// Starter says which node of a pair started an exchange.
type Starter uint8

const (
	StartedByA Starter = iota
	StartedByB
)

// Kind says whether a constraint is a lower or an upper limit of φ.
type Kind uint8

const (
	Lower Kind = iota // φ(B) ≥ A: proven by a packet from A to B
	Upper             // φ(B) ≤ A: proven by a packet from B to A
)

func (k Kind) String() string {
	if k == Lower {
		return "lower"
	}
	return "upper"
}

// Constraint is what one packet proves about φ, the function from B's counter to A's.
type Constraint struct {
	Kind Kind
	B    uint64 // that end of the interval of B's stamp for which the inequality is certainly true
	A    uint64 // that end of the interval of A's stamp for which the inequality is certainly true
}

// Constraints returns the two inequalities that an exchange between A and B proves.
func (e Exchange) Constraints(by Starter) (lower, upper Constraint) {
	if by == StartedByA {
		return Constraint{Lower, e.Received.Hi, e.Sent.Lo},
			Constraint{Upper, e.Answered.Lo, e.Returned.Hi}
	}
	return Constraint{Lower, e.Returned.Hi, e.Answered.Lo},
		Constraint{Upper, e.Sent.Lo, e.Received.Hi}
}
