package link

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// WAP5 makes trees of its links, and patterns of trees. A tree is what a message led to: which
// messages it caused, which messages these caused, and so on. If a link is about as probably right
// as wrong, there is a tree with it and a tree without it. The paper leaves some things open. They
// are decided as follows:
//
//   - A link is tried both ways if its probability is between 0.4 and 0.6. The most probable cause
//     of a message is tried even if it is less probable.
//   - In all trees that begin with one message, at most treeChoices links are tried both ways:
//     those whose probabilities are nearest to 0.5. Any other link is true if its probability is at
//     least 0.5.
//   - A message begins a tree if no cause is more probable than having none, or if having none has
//     a probability of at least 0.4. The probability of a tree does not contain the probability
//     that its first message has no cause.
//   - What comes from outside has no cause, and what goes there causes nothing.
//   - A message is in a tree only once.
//   - Messages that have the same cause have no order. So parallel calls make one pattern.
const (
	leastTried  = 0.4
	mostTried   = 0.6
	treeChoices = 10
)

// A Message goes from one place to another. A place that was not observed has no moments.
type Message struct {
	From, To             int32 // numbers of places, or calls.Outside
	Sent_ns, Received_ns int64 // calls.Unknown if nobody observed it
}

// MessagesOf returns the messages of calls: requests and responses.
func MessagesOf(seen *calls.Seen) (all []Message) {
	for i := range seen.Calls {
		c := &seen.Calls[i]
		for _, m := range [2]Message{{c.Caller, c.Callee, c.Sent_ns, c.Received_ns},
			{c.Callee, c.Caller, c.Replied_ns, c.Got_ns}} {
			if m.Sent_ns != calls.Unknown || m.Received_ns != calls.Unknown {
				all = append(all, m)
			}
		}
	}
	return all
}

// departed returns when a message was sent. If that is not known, departed returns when the message
// was received.
func (m *Message) departed() int64 {
	if m.Sent_ns != calls.Unknown {
		return m.Sent_ns
	}
	return m.Received_ns
}

// arrived returns when a message was received. If that is not known, arrived returns when the
// message was sent.
func (m *Message) arrived() int64 {
	if m.Received_ns != calls.Unknown {
		return m.Received_ns
	}
	return m.Sent_ns
}

// follower is a message that another one may have caused.
type follower struct {
	message     int32
	probability float64
	likeliest   bool // no other cause of the message is more probable
}

// A Tree is one explanation of what a message led to.
type Tree struct {
	Messages    []int32 // each comes after its cause
	Causes      []int32 // index in Messages of each message's cause; -1: the first message
	Probability float64 // of all choices that lead to this tree
}

// wap5Followers finds which messages each message may have caused, and which messages begin trees.
func wap5Followers(all []Message, places int) (followers [][]follower, roots []int32) {
	followers = make([][]follower, len(all))
	arrivals, sent := make([][]arrival, places), make([][]departure, places)
	observed := make([]bool, places)
	for i := range all {
		m := &all[i]
		if m.To >= 0 {
			arrivals[m.To] = append(arrivals[m.To], arrival{at: m.arrived(), call: int32(i)})
			observed[m.To] = observed[m.To] || m.Received_ns != calls.Unknown
		}
		if m.From < 0 {
			roots = append(roots, int32(i))
			continue
		}
		sent[m.From] = append(sent[m.From], departure{m.departed(), int32(i), m.To})
		observed[m.From] = observed[m.From] || m.Sent_ns != calls.Unknown
	}
	for p := range places {
		sortArrivals(arrivals[p])
		// A place that was not observed has only moments of others, and their clocks may differ.
		may := func(a arrival, d departure) bool {
			return a.call != d.call && (observed[p] || all[a.call].From == d.to)
		}
		wap5Causes(arrivals[p], sent[p], may, func(d departure, causes []wap5Cause, none float64) {
			best := 0.0
			for _, a := range causes {
				best = max(best, a.probability)
			}
			for _, a := range causes {
				followers[a.call] = append(followers[a.call], follower{d.call, a.probability,
					a.probability == best})
			}
			if none >= best || none >= leastTried {
				roots = append(roots, d.call)
			}
		})
	}
	slices.Sort(roots)
	return followers, roots
}

// A grower makes the trees that begin with one message.
type grower struct {
	followers [][]follower
	both      map[joint]bool // links that are tried both ways
	trees     []Tree
}

// A joint is a message, and a message that may have caused it.
type joint struct{ cause, message int32 }

func growTrees(root int32, followers [][]follower) []Tree {
	g := grower{followers: followers}
	g.chooseBoth(root)
	g.grow(Tree{Messages: []int32{root}, Causes: []int32{-1}, Probability: 1}, 0, nil)
	return g.trees
}

// chooseBoth chooses the links that are tried both ways, among those that the trees can have.
func (g *grower) chooseBoth(root int32) {
	type choice struct {
		joint
		doubt float64 // distance from 0.5
	}
	var choices []choice
	known, next := map[int32]bool{root: true}, []int32{root}
	for len(next) > 0 {
		cause := next[0]
		next = next[1:]
		for _, f := range g.followers[cause] {
			if f.probability < leastTried && !f.likeliest {
				continue
			}
			if f.probability <= mostTried {
				choices = append(choices, choice{joint{cause, f.message},
					math.Abs(f.probability - 0.5)})
			}
			if !known[f.message] {
				known[f.message] = true
				next = append(next, f.message)
			}
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int { return cmp.Compare(a.doubt, b.doubt) })
	g.both = map[joint]bool{}
	for _, c := range choices[:min(len(choices), treeChoices)] {
		g.both[c.joint] = true
	}
}

// grow adds to a tree what its messages caused, beginning with what t.Messages[at] caused. The
// parameter rest has the followers of that message that are still to be decided. If it is nil, all
// are to be decided.
func (g *grower) grow(t Tree, at int, rest []follower) {
	for ; at < len(t.Messages); at, rest = at+1, nil {
		cause := t.Messages[at]
		if rest == nil {
			rest = g.followers[cause]
		}
		for i, f := range rest {
			if slices.Contains(t.Messages, f.message) {
				continue
			}
			both := g.both[joint{cause, f.message}]
			if both {
				without := Tree{slices.Clone(t.Messages), slices.Clone(t.Causes),
					t.Probability * (1 - f.probability)}
				if i+1 < len(rest) {
					g.grow(without, at, rest[i+1:])
				} else {
					g.grow(without, at+1, nil)
				}
			}
			if !both && f.probability < 0.5 {
				t.Probability *= 1 - f.probability
				continue
			}
			t.Messages, t.Causes = append(t.Messages, f.message), append(t.Causes, int32(at))
			t.Probability *= f.probability
		}
	}
	g.trees = append(g.trees, t)
}

// A TreePattern is what trees of the same form have in common.
type TreePattern struct {
	Steps       []TreeStep // each comes after its cause
	Count       int        // trees
	Expectation float64    // sum of their probabilities
	Most        float64    // the largest of their probabilities
}

// A TreeStep is a message that each tree of a pattern has.
type TreeStep struct {
	Depth    int
	From, To string // names of programs; "outside": not observed
	// Own_ns is the time from the moment when the sender received the cause to the moment when it
	// sent the message. It is a mean, weighted with the probabilities of the trees.
	Own_ns float64
	// Network_ns is how long messages between the two places take, on average. It assumes that both
	// directions take equally long, so a difference of the clocks does not matter. NaN: not known.
	Network_ns float64
}

// A Rank says which patterns come first.
type Rank func(*TreePattern) float64

// Ranks are the ranks of the paper, by their names.
var Ranks = map[string]Rank{
	"count":       func(p *TreePattern) float64 { return float64(p.Count) },
	"expectation": func(p *TreePattern) float64 { return p.Expectation },
	"confidence":  func(p *TreePattern) float64 { return p.Expectation / float64(p.Count) },
	"repetition": func(p *TreePattern) float64 {
		return p.Expectation / math.Sqrt(float64(p.Count))
	},
}

// TreePatterns finds the patterns of messages as WAP5 does, the highest rank first.
func TreePatterns(places []calls.Place, all []Message, rank Rank) []TreePattern {
	followers, roots := wap5Followers(all, len(places))
	network := networkTimes(all)
	found := map[string]*TreePattern{}
	for _, root := range roots {
		for _, t := range growTrees(root, followers) {
			form, steps := t.describe(places, all, network)
			p := found[form]
			if p == nil {
				p = &TreePattern{Steps: steps}
				found[form] = p
				for i := range steps {
					p.Steps[i].Own_ns *= t.Probability
				}
			} else {
				for i := range steps {
					p.Steps[i].Own_ns += t.Probability * steps[i].Own_ns
				}
			}
			p.Count++
			p.Expectation += t.Probability
			p.Most = max(p.Most, t.Probability)
		}
	}
	type named struct {
		form string
		TreePattern
	}
	var sorted []named
	for form, p := range found {
		for i := range p.Steps {
			p.Steps[i].Own_ns /= p.Expectation
		}
		sorted = append(sorted, named{form, *p})
	}
	slices.SortFunc(sorted, func(a, b named) int {
		return cmp.Or(-cmp.Compare(rank(&a.TreePattern), rank(&b.TreePattern)),
			cmp.Compare(a.form, b.form))
	})
	patterns := make([]TreePattern, len(sorted))
	for i := range sorted {
		patterns[i] = sorted[i].TreePattern
	}
	return patterns
}

// describe returns the form of a tree: trees with equal forms have equal steps, in the same order.
func (t *Tree) describe(places []calls.Place, all []Message, network map[[2]int32]float64) (
	form string, steps []TreeStep) {
	name := func(place int32) string {
		if place < 0 {
			return "outside"
		}
		return places[place].Program
	}
	forms, below := make([]string, len(t.Messages)), make([][]TreeStep, len(t.Messages))
	caused := make([][]int, len(t.Messages))
	for i := len(t.Messages) - 1; i >= 0; i-- { // what a message caused comes after it
		m := &all[t.Messages[i]]
		step := TreeStep{From: name(m.From), To: name(m.To), Network_ns: math.NaN()}
		if c := t.Causes[i]; c >= 0 {
			step.Own_ns = float64(m.departed() - all[t.Messages[c]].arrived())
			caused[c] = append(caused[c], i)
		}
		if ns, ok := network[[2]int32{m.From, m.To}]; ok {
			step.Network_ns = ns
		}
		slices.SortStableFunc(caused[i], func(a, b int) int {
			return cmp.Compare(forms[a], forms[b])
		})
		var parts []string
		below[i] = []TreeStep{step}
		for _, k := range caused[i] {
			parts = append(parts, forms[k])
			for _, s := range below[k] {
				s.Depth++
				below[i] = append(below[i], s)
			}
		}
		forms[i] = step.From + ">" + step.To + "(" + strings.Join(parts, ",") + ")"
	}
	return forms[0], below[0]
}

// networkTimes returns how long messages between two places take, on average. The clocks of the two
// places differ by an unknown time, so both directions get the mean of both.
func networkTimes(all []Message) map[[2]int32]float64 {
	sums, n := map[[2]int32]float64{}, map[[2]int32]float64{}
	for i := range all {
		if m := &all[i]; m.Sent_ns != calls.Unknown && m.Received_ns != calls.Unknown {
			sums[[2]int32{m.From, m.To}] += float64(m.Received_ns - m.Sent_ns)
			n[[2]int32{m.From, m.To}]++
		}
	}
	times := map[[2]int32]float64{}
	for ends := range n {
		if back := [2]int32{ends[1], ends[0]}; n[back] > 0 {
			times[ends] = (sums[ends]/n[ends] + sums[back]/n[back]) / 2
		}
	}
	return times
}
