package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// FindAnswer is the answer to PathFind. If Node is empty, no node was found.
type FindAnswer struct {
	Node      string `json:"node,omitempty"`
	Fact      string `json:"fact,omitempty"`
	Confirmed bool   `json:"confirmed"` // the node itself has confirmed the fact
	Visited   int    `json:"visited"`   // number of visits to nodes
	// If no node was found, Missed is the probability that a node has the fact and was missed.
	Missed float64 `json:"missed"`
}

// findLimit is longer than any search takes.
const findLimit = 4 * time.Minute

// errNoServer is returned by Find if the agent is not part of a fleet.
var errNoServer = errors.New(
	"this agent has no server, so it knows no other nodes: name one in its configuration (server)")

// Find looks for a node with a fact that matches a pattern, such as "channel=parser/*". It asks the
// nodes of the fleet, and does not need the server.
func (a *Agent) Find(ctx context.Context, pattern string) (FindAnswer, error) {
	link := a.link.Load()
	if link == nil {
		return FindAnswer{}, fmt.Errorf("find %q: %w", pattern, errNoServer)
	}
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	f, err := link.Find(ctx, pattern)
	return FindAnswer{f.Node, f.Fact, f.Node != "", f.Visited, f.Missed}, err
}

// facts returns what the node says about itself: first what does not change, then the channels that
// programs have open.
func (a *Agent) facts() []string {
	var channels []string
	for _, r := range a.drainer.Stats().Rings {
		if r.Alive && r.SetAside == nil {
			channels = append(channels, "channel="+r.Channel.String())
		}
	}
	slices.Sort(channels)
	return slices.Concat(a.c.Facts, slices.Compact(channels))
}

func (a *Agent) serveFind(w http.ResponseWriter, r *http.Request) {
	// An error means that the connection is broken. Then writing the answer fails, too.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(findLimit + time.Minute))
	f, err := a.Find(r.Context(), r.URL.Query().Get("fact"))
	if err != nil {
		refuse(w, err)
		return
	}
	answer(w, f)
}
