package coordinator

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// A share is the part of the server's time that a node used with messages that nobody asked for.
// Without a limit, one node could keep the server from serving the others.
type share struct {
	taken time.Duration // as of at; it decreases with time
	at    time.Time
	over  bool // it took too much
}

const (
	// shareOf limits a node to one tenth of the time in the long run. Its trains in an ordinary run
	// use a hundredth of that tenth.
	shareOf = 10

	// shareMost is the most that a node may use at once. A node may need this much after an hour
	// away, when it reports what it measured in that hour.
	shareMost = 20 * time.Second

	// messageTakes is the least time charged for a message, which includes the time in the link.
	// registerTakes is the least time charged for a registration, because it concerns all nodes.
	messageTakes  = 10 * time.Microsecond
	registerTakes = 200 * time.Millisecond
)

// take charges some of the server's time, and reports whether the node is within its share.
func (s *share) take(now time.Time, d time.Duration) bool {
	s.taken, s.at = s.now(now)+d, now
	s.over = s.taken > shareMost
	return !s.over
}

func (s *share) now(now time.Time) time.Duration {
	return max(0, s.taken-max(0, now.Sub(s.at))/shareOf)
}

// wait returns how long a node that used too much must wait, until half of shareMost is available
// again. 0: the node may continue.
func (s *share) wait(now time.Time) time.Duration {
	if !s.over {
		return 0
	}
	return max(0, s.now(now)-shareMost/2) * shareOf
}

// charge adds the time since began to a node's share. A node that used too much is sent away and
// may return later. It then repeats the reports that the server did not acknowledge.
func (c *core) charge(n *node, began time.Time) {
	if !n.alive() || n.share.take(c.now(), max(messageTakes, c.took(began))) {
		return
	}
	why := fmt.Sprintf("took more of the server's time than its share: come back in %v",
		n.share.wait(c.now()).Round(time.Second))
	peer := n.peer
	c.gone(n, why)
	c.send(peer, 0, control.Refuse(control.NotNow, why))
}
