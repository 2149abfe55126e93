package coordinator

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// A share records how much of the server's time a node used with messages that the server did not
// ask for. Without a limit, one node could keep the server from serving the other nodes.
type share struct {
	taken time.Duration // time that was used up at the moment at; decreases from then on
	at    time.Time
	over  bool // the node used too much
}

const (
	// shareOf limits a node to one tenth of the server's time on average. In an ordinary run, a
	// node's trains use a hundredth of what the node may use.
	shareOf = 10

	// shareMost is the most time that a node may use at once. A node uses this much time of the
	// server when it reports everything that it measured while the server was away for an hour.
	shareMost = 20 * time.Second

	// messageTakes is the least time that the server charges for a message. It covers the link's
	// work. registerTakes is charged for a registration, which makes work for all nodes.
	messageTakes  = 10 * time.Microsecond
	registerTakes = 200 * time.Millisecond
)

// spend charges some time to the node, and reports whether the node stays within its share.
func (s *share) spend(now time.Time, d time.Duration) bool {
	s.taken, s.at = s.now(now)+d, now
	s.over = s.taken > shareMost
	return !s.over
}

func (s *share) now(now time.Time) time.Duration {
	return max(0, s.taken-max(0, now.Sub(s.at))/shareOf)
}

// wait returns how long a node that used too much must wait until half of shareMost is available
// again. It returns 0 if the node may continue.
func (s *share) wait(now time.Time) time.Duration {
	if !s.over {
		return 0
	}
	return max(0, s.now(now)-shareMost/2) * shareOf
}

// charge charges the node for the time that has passed since the given moment. If the node has used
// too much, the core ends its registration. When the node returns later, it repeats the reports
// that were not acknowledged.
func (c *core) charge(n *node, began time.Time) {
	if !n.isAlive() || n.share.spend(c.now(), max(messageTakes, c.timeSince(began))) {
		return
	}
	why := fmt.Sprintf("took more of the server's time than its share: come back in %v",
		n.share.wait(c.now()).Round(time.Second))
	peer := n.peer
	c.markGone(n, why)
	c.send(peer, 0, control.Refuse(control.NotNow, why))
}
