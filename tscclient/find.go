package tscclient

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
)

// ErrNoGraph is returned by Find if the node cannot ask other nodes.
var ErrNoGraph = errors.New("this node is not in a graph of nodes, so it can ask no others: the " +
	"server makes a graph in fleets of more than 30 nodes (its setting all_pairs)")

// A Finding is the answer to Find. If Node is empty, no node was found.
type Finding struct {
	Node    string
	Fact    string // the node's fact, confirmed by the node itself
	Visited int    // visits to nodes
	Missed  float64
}

// factsEvery is the time between two looks at the node's facts.
const factsEvery = 5 * time.Second

// Incomplete is a fact that a node adds to its facts if it has more of them than the graph carries.
const Incomplete = "facts=incomplete"

// Find looks for a node with a fact that matches a pattern, as channel.MatchFact says. In a graph,
// the search goes from node to node, without the server. If the search finds no node, Missed is the
// probability that it missed a node with the fact. Without a graph, Find knows only this node's
// facts. If none of them matches, the error wraps ErrNoGraph.
func (l *Link) Find(ctx context.Context, pattern string) (Finding, error) {
	f, err := askGraph(ctx, l, func(answer func(Finding, error)) {
		l.graph.beginSearch(pattern, answer)
	})
	if err != nil {
		return Finding{}, fmt.Errorf("find %q: %w", pattern, err)
	}
	return f, nil
}

// askGraph makes the graph's goroutine begin to answer a question, and waits for the answer.
func askGraph[T any](ctx context.Context, l *Link, begin func(answer func(T, error))) (T, error) {
	type answered struct {
		value T
		err   error
	}
	answers := make(chan answered, 1)
	ask := func() { begin(func(value T, err error) { answers <- answered{value, err} }) }
	var none T
	select {
	case l.graph.questions <- ask:
	case <-ctx.Done():
		return none, ctx.Err()
	case <-l.graph.left:
		return none, ErrClosed
	case <-l.ctx.Done():
		return none, ErrClosed
	}
	select {
	case a := <-answers:
		return a.value, a.err
	case <-ctx.Done():
		return none, ctx.Err()
	case <-l.graph.left:
		return none, ErrClosed
	case <-l.ctx.Done():
		return none, ErrClosed
	}
}

// beginSearch begins a search. Only the graph's goroutine may call it.
func (g *graphPart) beginSearch(pattern string, answer func(Finding, error)) {
	fail := func(err error) { answer(Finding{}, err) }
	if g.node == nil {
		for _, f := range g.ownFacts() {
			if channel.MatchFact(pattern, string(f)) {
				answer(Finding{Node: g.link.client.Node().Name, Fact: string(f), Visited: 1}, nil)
				return
			}
		}
		fail(ErrNoGraph)
		return
	}
	g.lookAtFacts()
	err := g.node.Search(g.graphTime(), pattern, func(r overlay.Result) {
		f := Finding{Fact: string(r.Fact), Visited: r.Visited, Missed: r.Missed}
		if r.Name != "" {
			card, err := wire.ParseName(r.Name)
			if err != nil {
				fail(err)
				return
			}
			f.Node = card.Node
		}
		answer(f, nil)
	})
	if err != nil {
		fail(err)
	}
}

// lookAtFacts tells the graph the node's heats (see HeatBound). If the facts that the node says
// about itself have changed, it also tells the graph the new facts.
func (g *graphPart) lookAtFacts() {
	g.factsAt = g.graphTime() + factsEvery
	g.lookAtHeats()
	now := g.ownFacts()
	if slices.Equal(now, g.facts) {
		return
	}
	g.facts = now
	if err := g.node.SetFacts(now...); err != nil {
		g.link.config.Log.Warn("node does not say facts about itself", "why", err)
	}
}

// ownFacts returns the node's facts, as far as the graph carries them.
func (g *graphPart) ownFacts() (facts []overlay.Fact) {
	if g.link.config.Facts == nil {
		return nil
	}
	complete := true
	for _, text := range g.link.config.Facts() {
		f := overlay.Fact(text)
		switch {
		case slices.Contains(facts, f):
		case f == "" || len(f) > overlay.MaxFact || len(facts) == overlay.MaxFacts-1:
			complete = false
		default:
			facts = append(facts, f)
		}
	}
	if !complete {
		facts = append(facts, Incomplete)
	}
	return facts
}
