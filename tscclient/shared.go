package tscclient

import (
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Nothing proves that a shared clock (minrtt.SharedClock) is really shared: only the configuration
// says so. This file compares what the clock says with what packets prove. If they contradict each
// other, the client no longer uses the clock with that peer, and drops everything that it gathered
// with the clock.

// sharedClock is the part of a pair that concerns a clock that its nodes share.
type sharedClock struct {
	// packets has the trains of knownPair.recent, but only what the packets prove without the
	// clock. It is nil as long as the pair has no meetings.
	packets *tscratio.Pair
	refuted bool
}

// checkMeetings returns the train's meetings if they may become constraints. If what the clock
// showed, now or earlier, contradicts the packets, the result lie says how. The caller must not
// have added the train yet.
func (k *knownPair) checkMeetings(t minrtt.Train, packets tscratio.Train) (ms []minrtt.Meeting,
	lie string) {
	s := &k.shared
	if s.refuted || len(t.Meetings) == 0 && s.packets == nil && !t.ClocksDiffer {
		return nil, ""
	}
	if s.packets == nil {
		s.packets = copyOfPair(k.recent)
	}
	_ = s.packets.Add(packets) // if this fails, adding to the pair fails, too
	s.packets = newestTrains(s.packets)
	if t.ClocksDiffer {
		return nil, "the two nodes' readings cannot come from one clock, or it was set"
	}
	if s.packets.Check() != nil {
		return nil, "" // the packets contradict each other, so nothing can be compared
	}
	trial := copyOfPair(k.recent)
	_ = trial.Add(packets)
	c := trial.Check()
	if len(t.Meetings) > 0 && c == nil {
		_ = trial.Add(tscratio.Train{By: tscratio.StartedByA,
			OneWay: meetingConstraints(t.Meetings)})
		c = trial.Check()
	}
	if c != nil {
		return nil, c.String()
	}
	return t.Meetings, ""
}

// withoutSharedClock returns the pair with the packets of its newest trains, but without anything
// that rests on a shared clock. For older trains, it is not known which constraints rest on the
// clock, so withoutSharedClock drops these trains. The very newest train is not part of the result:
// the caller adds it.
func (k *knownPair) withoutSharedClock() *knownPair {
	empty, _ := tscratio.NewPair(k.pair.A, k.pair.B, k.pair.Declared) // no error, as before
	pair := empty
	if n := k.shared.packets.Trains(); n > 1 {
		pair, _ = k.shared.packets.Split(trainStart(k.shared.packets, n-1))
	}
	return &knownPair{pair: pair, recent: copyOfPair(pair), shared: sharedClock{refuted: true}}
}

// copyOfPair returns a copy of a pair.
func copyOfPair(p *tscratio.Pair) *tscratio.Pair {
	c, _ := tscratio.NewPair(p.A, p.B, p.Declared) // no error, as for p
	_ = c.Merge(p)
	return c
}

// meetingConstraints returns the constraints that meetings prove.
func meetingConstraints(ms []minrtt.Meeting) (cs []tscratio.Constraint) {
	for _, m := range ms {
		lower, upper := m.Constraints(tscratio.StartedByA)
		cs = append(cs, lower, upper)
	}
	return cs
}

// describeRefusal describes a clock that was found not to be shared.
func (c *Client) describeRefusal(peer, lie string) string {
	return fmt.Sprintf("shared clock %q of %q and %q contradicts their packets: %s: it is not "+
		"used with this peer until the program starts again: name a clock only if all nodes that "+
		"give the name read the same one",
		c.config.Clock.Shared.Name, c.config.Node.Name, peer, lie)
}

// reportedMeetings adds a train's meetings to a report. The train is the report's last one.
func reportedMeetings(m *control.Trains, t minrtt.Train) {
	for _, x := range t.Meetings {
		m.Meetings = append(m.Meetings, control.Meeting{
			Train: len(m.Trains) - 1,
			OwnLo: x.Own.Lo, OwnHi: x.Own.Hi, PeerLo: x.Peer.Lo, PeerHi: x.Peer.Hi,
		})
	}
}
