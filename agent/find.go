package agent

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/ring"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
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

// nodeFacts returns what the node says about itself: first the facts that do not change, then the
// channels that programs have open.
func (a *Agent) nodeFacts() []string {
	var channels []string
	for _, r := range a.drainer.Stats().Rings {
		if r.Alive && r.SetAside == nil {
			channels = append(channels, channel.FactChannel+r.Channel.String())
		}
	}
	slices.Sort(channels)
	return slices.Concat(a.c.Facts, slices.Compact(channels))
}

// HeatDropped and HeatRingFill are kinds of heat. A heat is a figure of a node, and Hot finds the
// nodes with the largest figures. HeatDropped and HeatRingFill consider only rings that programs
// have open. HeatDropped counts the events that were dropped in these rings. HeatRingFill is how
// full the fullest of these rings is, in percent.
const (
	HeatDropped  = "dropped"
	HeatRingFill = "ring-fill"
)

// Heats are the kinds of heat by which Hot finds nodes.
var Heats = []string{tscclient.HeatBound, HeatDropped, HeatRingFill}

// HotAnswer is the answer to PathHot: the hottest node first.
type HotAnswer struct {
	By    string    `json:"by"`
	Nodes []HotNode `json:"nodes"`
}

// A HotNode is a node with its heat. Value is the figure that the node itself reports: its bound in
// nanoseconds, its number of dropped events, or how full its fullest ring is in percent.
type HotNode struct {
	Node  string `json:"node"`
	Value uint64 `json:"value"`
}

// Hot looks for the nodes of the fleet with the most heat of one kind. It does not need the server.
func (a *Agent) Hot(ctx context.Context, by string) (HotAnswer, error) {
	link := a.link.Load()
	if link == nil {
		return HotAnswer{}, fmt.Errorf("look for heat by %q: %w", by, errNoServer)
	}
	ctx, cancel := context.WithTimeout(ctx, findLimit)
	defer cancel()
	found, err := link.Hot(ctx, by)
	h := HotAnswer{By: by, Nodes: []HotNode{}}
	for _, n := range found {
		h.Nodes = append(h.Nodes, HotNode(n))
	}
	return h, err
}

// hotness returns how hot this node is.
func (a *Agent) hotness() map[string]uint64 { return heatsOf(a.drainer.Stats().Rings) }

func heatsOf(rings []drain.RingStats) map[string]uint64 {
	dropped, fullest := uint64(0), uint64(0)
	for _, r := range rings {
		if !r.Alive || r.SetAside != nil {
			continue
		}
		dropped += r.Dropped
		if r.RingBytes > 0 {
			fullest = max(fullest, min(100, 100*r.Waiting*ring.RecordBytes/uint64(r.RingBytes)))
		}
	}
	return map[string]uint64{HeatDropped: dropped, HeatRingFill: fullest}
}

func (a *Agent) serveHot(w http.ResponseWriter, r *http.Request) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(findLimit + time.Minute))
	h, err := a.Hot(r.Context(), r.URL.Query().Get("by"))
	if err != nil {
		refuseWith(w, err)
		return
	}
	answer(w, h)
}

func (a *Agent) serveFind(w http.ResponseWriter, r *http.Request) {
	// An error means that the connection is broken. Then writing the answer fails, too.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(findLimit + time.Minute))
	f, err := a.Find(r.Context(), r.URL.Query().Get("fact"))
	if err != nil {
		refuseWith(w, err)
		return
	}
	answer(w, f)
}
