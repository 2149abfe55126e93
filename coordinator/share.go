package coordinator

import (
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// A share is what a node has taken of the server's time that nobody asked it to. Without a limit
// one node keeps the others from theirs.
type share struct {
	taken time.Duration // as of at; it wears off
	at    time.Time
	over  bool // it took too much
}

const (
	// shareOf is which part of the time a node may take in the long run: a tenth. Its trains of an
	// ordinary run take a hundredth of that.
	shareOf = 10

	// shareMost is what it may take at once, as after an hour away, when it reports what it
	// measured meanwhile.
	shareMost = 20 * time.Second

	// What a message takes at least, in the link as well, and a registration, which concerns all
	// nodes.
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

// wait is how long a node that took too much has to wait, until half of it has worn off. 0: it may
// come.
func (s *share) wait(now time.Time) time.Duration {
	if !s.over {
		return 0
	}
	return max(0, s.now(now)-shareMost/2) * shareOf
}

// charge has a node answer for what it took. One that took too much is let go, and may come back
// later: what it reported and the server has not acknowledged it reports again.
func (c *core) charge(n *node, began time.Time) {
	if !n.alive() || n.share.take(c.now(), max(messageTakes, c.took(began))) {
		return
	}
	why := fmt.Sprintf("took more of the server's time than its share: come back in %v", n.share.wait(c.now()).Round(time.Second))
	peer := n.peer
	c.gone(n, why)
	c.send(peer, 0, control.Refuse(control.NotNow, why))
}
