package link

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

func isNear(x, y, most float64) bool { return math.Abs(x-y) <= most }

// This is figure 4 of the paper on WAP5. The message A may have caused C, D, E and F, and C may
// have caused G. There are exactly two trees.
func TestWAP5TreesOfFigure4(t *testing.T) {
	const a, c, d, e, f, g = 0, 1, 2, 3, 4, 5
	trees := growTrees(a, [][]follower{
		a: {{c, 0.8, true}, {d, 0.2, false}, {e, 0.1, false}, {f, 0.48, false}},
		c: {{g, 0.9, true}}, g: nil,
	})
	if len(trees) != 2 {
		t.Fatalf("%d trees, want 2: %v", len(trees), trees)
	}
	for i, want := range []Tree{
		{[]int32{a, c, g}, []int32{-1, 0, 1}, .8 * .9 * (1 - .2) * (1 - .1) * (1 - .48)}, // .270
		{[]int32{a, c, f, g}, []int32{-1, 0, 0, 1}, .8 * .9 * .8 * .9 * .48},             // .249
	} {
		got := trees[i]
		if !slices.Equal(got.Messages, want.Messages) || !slices.Equal(got.Causes, want.Causes) ||
			!isNear(got.Probability, want.Probability, 1e-12) {
			t.Errorf("tree %d is %v, want %v", i, got, want)
		}
	}
	if !isNear(trees[0].Probability, 0.270, 0.0005) ||
		!isNear(trees[1].Probability, 0.249, 0.0005) {
		t.Errorf("probabilities %v and %v, want 0.270 and 0.249", trees[0].Probability,
			trees[1].Probability)
	}
}

// If a message is left out of a tree, the tree's probability does not depend on what the message
// may have caused. The most probable cause is tried both ways even if it is improbable. Only ten of
// all links are tried.
func TestWAP5TreeChoices(t *testing.T) {
	trees := growTrees(0, [][]follower{0: {{1, 0.5, true}}, 1: {{2, 0.9, true}, {3, 0.1, false}},
		2: nil, 3: nil})
	if len(trees) != 2 || trees[0].Probability != 0.5 || len(trees[0].Messages) != 1 ||
		!isNear(trees[1].Probability, 0.5*0.9*0.9, 1e-12) {
		t.Errorf("trees %v", trees)
	}
	trees = growTrees(0, [][]follower{0: {{1, 0.3, true}, {2, 0.3, false}}, 1: nil, 2: nil})
	if len(trees) != 2 || !isNear(trees[0].Probability, 0.7*0.7, 1e-12) ||
		!isNear(trees[1].Probability, 0.3*0.7, 1e-12) {
		t.Errorf("trees %v: want one without messages, and one with message 1", trees)
	}
	trees = growTrees(0, [][]follower{0: {{1, 0.9, true}, {2, 0.9, true}}, 1: {{3, 0.5, true}},
		2: {{3, 0.45, false}}, 3: nil})
	for _, tree := range trees {
		if len(tree.Messages) > 4 {
			t.Errorf("message 3 is in a tree twice: %v", tree)
		}
	}
	var many []follower
	for i := range 2 * treeChoices {
		many = append(many, follower{int32(i) + 1, 0.45 + 0.001*float64(i), true})
	}
	trees = growTrees(0, append([][]follower{many}, make([][]follower, len(many))...))
	if len(trees) != 1<<treeChoices {
		t.Errorf("%d trees, want %d", len(trees), 1<<treeChoices)
	}
	sum := 0.0
	for _, tree := range trees {
		sum += tree.Probability
	}
	whole := 1.0 // of the choices that were not tried
	for _, f := range many[:treeChoices] {
		whole *= 1 - f.probability
	}
	if !isNear(sum, whole, 1e-9) {
		t.Errorf("the probabilities sum to %v, want %v", sum, whole)
	}
}

// chain returns messages that follow each other. Times are in ms.
func chain(begin, offset float64, names []string, own, network []float64) ([]calls.Place,
	[]Message) {
	var places []calls.Place
	of := func(name string) int32 {
		if name == "client" {
			return calls.Outside
		}
		p := calls.Place{Program: name}
		if !slices.Contains(places, p) {
			places = append(places, p)
		}
		return int32(slices.Index(places, p))
	}
	var all []Message
	at := begin
	for i := 1; i < len(names); i++ {
		m := Message{From: of(names[i-1]), To: of(names[i]), Sent_ns: calls.Unknown,
			Received_ns: calls.Unknown}
		isSeen := func(place int32) bool {
			return place >= 0 && strings.ToUpper(places[place].Program[:1]) ==
				places[place].Program[:1]
		}
		clock := func(place int32) float64 { return at + float64(place)*offset }
		at += own[i-1]
		if isSeen(m.From) {
			m.Sent_ns = int64(clock(m.From) * 1e6)
		}
		at += network[i-1]
		if isSeen(m.To) {
			m.Received_ns = int64(clock(m.To) * 1e6)
		}
		all = append(all, m)
	}
	return places, all
}

// These are figures 10, 12 and 13 of the paper: paths through Coral and CoDeeN, with the delays
// that the paper prints, in ms. Programs with small letters were not observed: their delay contains
// the network. The clocks of the programs differ by seconds.
func TestWAP5PathsOfTheFigures(t *testing.T) {
	for _, c := range []struct {
		figure       string
		names        []string
		own, network []float64
		sum          float64
	}{
		{"10", []string{"client", "PU", "dns2", "PU", "web6", "PU", "client"},
			[]float64{0, 64.7, 2.2, 48.7, 51.7, 10.9}, make([]float64, 6), 178.2},
		{"12", []string{"client", "UVA", "Pri", "lo", "Pri", "web1", "Pri", "UVA", "client"},
			[]float64{0, 0.5, 0.3, 161.9, 28.5, 33.1, 0.2, 0.2},
			[]float64{0, 24.9, 0, 0, 0, 0, 24.9, 0}, 274.5},
		{"13 above", []string{"client", "How", "Ro", "web4", "Ro", "How", "client"},
			[]float64{0, 19, 50.9, 320.6, 0.1, 0.2}, []float64{0, 18.9, 0, 0, 18.9, 0}, 428.6},
		{"13 below", []string{"client", "A&M", "CT", "web3", "CT", "A&M", "client"},
			[]float64{0, 0.5, 17.1, 28.4, 0.1, 0.1}, []float64{0, 26.8, 0, 0, 26.8, 0}, 99.8},
	} {
		var places []calls.Place
		var all []Message
		for k := range 20 {
			var more []Message
			places, more = chain(float64(1000+5000*k), 3000, c.names, c.own, c.network)
			all = append(all, more...)
		}
		patterns := TreePatterns(places, all, Ranks["expectation"])
		p := patterns[0]
		if p.Count != 20 || len(p.Steps) != len(c.own) {
			t.Errorf("figure %s: the first of %d patterns has %d trees of %d messages, want 20 of "+
				"%d: %+v", c.figure, len(patterns), p.Count, len(p.Steps), len(c.own), p)
			continue
		}
		sum := 0.0
		for i, s := range p.Steps {
			network := s.Network_ns
			if math.IsNaN(network) {
				network = 0
			}
			if s.From != strings.ReplaceAll(c.names[i], "client", "outside") ||
				!isNear(s.Own_ns/1e6, c.own[i], 0.01) || !isNear(network/1e6, c.network[i], 0.01) {
				t.Errorf("figure %s: step %d is %+v, want %s, %v and %v ms", c.figure, i, s,
					c.names[i], c.own[i], c.network[i])
			}
			sum += (s.Own_ns + network) / 1e6
		}
		if !isNear(sum, c.sum, 0.05) {
			t.Errorf("figure %s: the delays sum to %.2f ms, want %.1f", c.figure, sum, c.sum)
		}
	}
}

// As in figure 14, a program asks three others at the same time, and each answers. In which order
// they answer does not matter: there is one pattern.
func TestWAP5ParallelCalls(t *testing.T) {
	places := []calls.Place{{Program: "WaP"}, {Program: "WaC"}, {Program: "MIT"}, {Program: "ND"},
		{Program: "CMU"}}
	var all []Message
	random := rand.New(rand.NewPCG(14, 14))
	for k := range int64(30) {
		at := k * 2_000_000_000
		all = append(all, Message{0, 1, at, at + 5_500_000})
		for other := range int32(3) {
			sent := at + 6_000_000 + int64(random.IntN(100_000))
			all = append(all, Message{1, 2 + other, sent, sent + 20_000_000})
		}
	}
	random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
	patterns := TreePatterns(places, all, Ranks["expectation"])
	if p := patterns[0]; p.Count != 30 || len(p.Steps) != 4 || p.Steps[3].Depth != 1 {
		t.Errorf("%d patterns, the first one %+v: want 30 trees of 4 messages", len(patterns), p)
	}
}

// The paper has four ranks of patterns. The trees of the first pattern are frequent and doubtful,
// those of the second one rare and probable.
func TestWAP5Ranks(t *testing.T) {
	often, sure := &TreePattern{Count: 100, Expectation: 20, Most: 0.3},
		&TreePattern{Count: 16, Expectation: 12, Most: 0.9}
	for name, want := range map[string][2]float64{"count": {100, 16}, "expectation": {20, 12},
		"confidence": {0.2, 0.75}, "repetition": {2, 3}} {
		got := [2]float64{Ranks[name](often), Ranks[name](sure)}
		if !isNear(got[0], want[0], 1e-12) || !isNear(got[1], want[1], 1e-12) {
			t.Errorf("%s: ranks %v, want %v", name, got, want)
		}
	}
	if len(Ranks) != 4 {
		t.Errorf("%d ranks, want 4", len(Ranks))
	}
}

// A message begins a tree if having no cause is about as probable as having one. Here the last
// message was sent 3.8 mean delays after its only cause, so it has no cause with 0.45.
func TestWAP5DoubtfulRoots(t *testing.T) {
	var all []Message
	for k := range int64(10) {
		at, delay := k*2_000_000_000, int64(1_000_000)
		if k == 9 {
			delay = 5_516_129
		}
		all = append(all, Message{calls.Outside, 0, calls.Unknown, at},
			Message{0, 1, at + delay, at + 10_000_000})
	}
	followers, roots := wap5Followers(all, 2)
	if f := followers[18]; len(f) != 1 || !isNear(f[0].probability, 0.55, 0.001) ||
		!slices.Equal(roots, []int32{0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 19}) {
		t.Errorf("trees begin with %v, the last message has the causes %v", roots, f)
	}
}

// A rank decides the order of patterns, and each pattern sums up its trees. Here nearly all
// requests go to b, and a few to c. The cause of a message to b is sometimes doubtful.
func TestWAP5PatternsSumUp(t *testing.T) {
	places := []calls.Place{{Program: "a"}, {Program: "b"}, {Program: "c"}}
	var all []Message
	for k := range int64(60) {
		at, to := k*2_000_000_000, int32(1)
		if k%10 == 9 {
			to = 2
		}
		all = append(all, Message{calls.Outside, 0, calls.Unknown, at})
		if k%3 == 0 {
			all = append(all, Message{calls.Outside, 0, calls.Unknown, at + 900_000})
		}
		all = append(all, Message{0, to, at + 1_000_000 + k*20_000, at + 1_500_000})
	}
	followers, roots := wap5Followers(all, len(places))
	count, sum := 0, 0.0
	for _, r := range roots {
		for _, tree := range growTrees(r, followers) {
			count++
			sum += tree.Probability
		}
	}
	for name, rank := range Ranks {
		patterns := TreePatterns(places, all, rank)
		n, expectation := 0, 0.0
		for i := range patterns {
			p := &patterns[i]
			n += p.Count
			expectation += p.Expectation
			if p.Most > 1 || p.Most*float64(p.Count) < p.Expectation-1e-9 ||
				p.Expectation < p.Most-1e-9 {
				t.Errorf("%s: pattern %+v", name, p)
			}
			if i > 0 && rank(p) > rank(&patterns[i-1]) {
				t.Errorf("%s: pattern %d comes too late", name, i)
			}
		}
		if n != count || !isNear(expectation, sum, 1e-9) || len(patterns) < 3 {
			t.Errorf("%s: %d patterns of %d trees with %v, want %d trees with %v", name,
				len(patterns), n, expectation, count, sum)
		}
	}
}

// Ten hops that leave no doubt, each with the mean delay: the tree has the probability 0.62 only.
// So trees are ranked, and no limit is put on their probabilities.
func TestWAP5LongPathsAreImprobable(t *testing.T) {
	var places []calls.Place
	for i := range 11 {
		places = append(places, calls.Place{Program: fmt.Sprint("p", i)})
	}
	var all []Message
	for k := range int64(5) {
		at := k * 5_000_000_000
		all = append(all, Message{calls.Outside, 0, calls.Unknown, at})
		for i := range int32(10) {
			all = append(all, Message{i, i + 1, at + 5_000_000, at + 6_000_000})
			at += 6_000_000
		}
	}
	p := TreePatterns(places, all, Ranks["expectation"])[0]
	if len(p.Steps) != 11 || !isNear(p.Most, math.Pow(1/(1+math.Exp(-3)), 10), 0.001) ||
		!isNear(p.Most, 0.62, 0.01) {
		t.Errorf("pattern of %d messages with %.3f, want 11 with 0.62", len(p.Steps), p.Most)
	}
}

// The properties of WAP5's probabilities, for any delays: they sum to 1. Whatever the mean delay
// is, a later cause is more probable than an earlier one. None is above 0.982. Having no cause is
// the most probable if and only if nothing came within y mean delays. A larger y makes causes more
// probable, so it gives longer paths.
func TestWAP5Properties(t *testing.T) {
	random := rand.New(rand.NewPCG(22, 4))
	for range 10_000 {
		mean := math.Exp(random.Float64()*20 - 5)
		delays := make([]float64, random.IntN(6))
		for i := range delays {
			delays[i] = mean * 8 * random.Float64()
		}
		slices.Sort(delays)
		w := wap5Weights(delays, mean, wap5Y)
		none, sum := w[len(delays)], 0.0
		for i, p := range w {
			sum += p
			if i < len(delays) && (p > 0.98202 || i > 0 && p > w[i-1]) {
				t.Fatalf("delays %v, mean %v: probabilities %v", delays, mean, w)
			}
		}
		alone := len(delays) == 0 || delays[0] > wap5Y*mean
		longer := wap5Weights(delays, mean, wap5Y+1)[len(delays)]
		if !isNear(sum, 1, 1e-9) || (slices.Max(w) == none) != alone || longer > none {
			t.Fatalf("delays %v, mean %v: probabilities %v, without a cause %v if y is larger",
				delays, mean, w, longer)
		}
	}
}

// A cause was received before the message was sent, or at the same moment, and not too long before.
// A mean delay of 0 does no harm. If a place was not observed, what it sends to another place was
// caused by a message from that place.
func TestWAP5Candidates(t *testing.T) {
	const second = 1_000_000_000
	all := []Message{
		{calls.Outside, 0, calls.Unknown, -1},              // 0: too early for message 3
		{calls.Outside, 0, calls.Unknown, second},          // 1: the same moment
		{calls.Outside, 0, calls.Unknown, second + 1},      // 2: too late
		{0, 1, second, calls.Unknown},                      // 3: to b, which was not observed
		{2, 1, second + 5, calls.Unknown},                  // 4: from c to b
		{1, 0, calls.Unknown, second + 9},                  // 5: from b
		{calls.Outside, 2, calls.Unknown, 3 * second},      // 6
		{2, 0, 3*second + wap5Horizon_ns + 1, 5 * second},  // 7: nothing came within the horizon
		{calls.Outside, 2, calls.Unknown, 10 * second},     // 8
		{2, 0, 10*second + wap5Horizon_ns, 11*second + 20}, // 9: at the end of the horizon
	}
	followers, roots := wap5Followers(all, 3)
	got := map[int32]int32{} // cause of each message
	for cause, f := range followers {
		for _, f := range f {
			if _, two := got[f.message]; two {
				t.Errorf("message %d has two causes", f.message)
			}
			got[f.message] = int32(cause)
			if f.message == 3 && !isNear(f.probability, 0.982, 0.0005) { // its mean delay is 0
				t.Errorf("message 3 has its cause with %v, want 0.982", f.probability)
			}
		}
	}
	want := map[int32]int32{3: 1, 5: 3, 9: 8}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("causes %v, want %v", got, want)
	}
	if !slices.Equal(roots, []int32{0, 1, 2, 4, 6, 7, 8}) {
		t.Errorf("trees begin with %v", roots)
	}
}
