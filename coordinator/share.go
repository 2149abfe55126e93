package coordinator

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// A share is how much of the server's time a node took with messages that nobody asked for. Without
// a limit, one node could keep the others from their time.
type share struct {
	taken time.Duration // as of at; it decreases with time
	at    time.Time
	over  bool // it took too much
}

const (
	// shareOf says which part of the time a node may take in the long run: one tenth. Its trains in
	// an ordinary run take a hundredth of that.
	shareOf = 10

	// shareMost is how much a node may take at once. It may need that after an hour away, when it
	// reports what it measured in that time.
	shareMost = 20 * time.Second

	// messageTakes is the least that a message takes, with the time in the link. registerTakes is
	// the least that a registration takes, because it concerns all nodes.
	messageTakes  = 10 * time.Microsecond
	registerTakes = 200 * time.Millisecond
)

// take takes some of the server's time, and says whether the node may have it.
func (s *share) take(now time.Time, d time.Duration) bool {
	s.taken, s.at = s.now(now)+d, now
	s.over = s.taken > shareMost
	return !s.over
}

func (s *share) now(now time.Time) time.Duration {
	return max(0, s.taken-max(0, now.Sub(s.at))/shareOf)
}

// wait returns how long a node that took too much must wait, until half of it is left. 0: the node
// may come.
func (s *share) wait(now time.Time) time.Duration {
	if !s.over {
		return 0
	}
	return max(0, s.now(now)-shareMost/2) * shareOf
}

// charge adds the time since began to a node's share. A node that took too much is sent away and
// may come back later. It then reports again what the server did not acknowledge.
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
