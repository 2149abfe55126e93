package analysis

import "math"

// By these limits, the analysis decides whether tuples end at a point as if a filter dropped them.
const (
	leastShare  = 0.05 // smallest share of the tuples that end there
	leastJudged = 1000 // smallest number of tuples: with fewer, chance hides changes of the share
	leastGroups = 5    // smallest number of groups of neighbouring bins
	mostGroups  = 40   // with 40 groups, a burst of a tenth of the tuples fills whole groups
	// falseAlarm is the largest probability that a share that never changes is found to change.
	falseAlarm = 0.001
	// leastChange is the smallest change of the share that matters. It is relative to the share of
	// tuples that end, or to the share of tuples that go on, whichever is smaller. The share of
	// most filters changes a little. With many tuples, chance cannot explain even such a small
	// change, so without this limit the filter would count as a loss.
	leastChange = 0.1
)

// actsAsFilter reports whether tuples end at a point as if a filter dropped them: at least
// leastShare of them do, and the share is about the same at every time. It gets the number of the
// point's events in each bin. The data cannot prove that it was a filter: a steady loss looks the
// same. But most losses come in bursts.
func (f *pointFound) actsAsFilter(passed []uint64) bool {
	decided := make([]flow, len(passed)) // by bin: tuples that are not in flight
	for bin, n := range passed {
		flying := at(f.flyingBins, bin)
		decided[bin] = flow{n - min(n, flying), at(f.endedBins, bin) - flying}
	}
	groups := groupBins(decided)
	var all flow
	for _, g := range groups {
		all.add(g)
	}
	return all.passed >= leastJudged && all.share() >= leastShare && len(groups) >= leastGroups &&
		isSteady(groups, all)
}

func at(bins []uint64, bin int) uint64 {
	if bin < len(bins) {
		return bins[bin]
	}
	return 0
}

// flow is how many tuples passed a point in some time, and how many of these ended there.
type flow struct{ passed, ended uint64 }

func (f *flow) add(g flow) { f.passed, f.ended = f.passed+g.passed, f.ended+g.ended }

func (f *flow) share() float64 { return float64(f.ended) / float64(max(f.passed, f.ended, 1)) }

// groupBins merges neighbouring bins into at most mostGroups groups. Each group has at least
// 1/mostGroups of all tuples. It does not look at how many tuples ended. So the choice of groups
// makes the share of ended tuples seem neither steadier nor less steady.
func groupBins(bins []flow) (groups []flow) {
	var all, group flow
	for _, b := range bins {
		all.add(b)
	}
	for _, b := range bins {
		if group.add(b); group.passed*mostGroups >= all.passed && group.passed > 0 {
			groups, group = append(groups, group), flow{}
		}
	}
	if len(groups) > 0 {
		groups[len(groups)-1].add(group)
	}
	return groups
}

// isSteady reports whether the share of tuples that end is about the same everywhere: in each
// stretch of neighbouring groups as in all groups together.
//
// If each tuple ends with the same probability, and the total is known, the number that ends in a
// stretch is hypergeometric. Let p be the share in all groups. By Hoeffding (1963, theorem 1 and
// section 6), the probability that the stretch's share is x, or farther from p on the same side, is
// at most exp(-n·d(x, p)). Here n is the number of tuples, and d is the divergence. falseAlarm is
// divided among both sides of all stretches.
func isSteady(groups []flow, all flow) bool {
	p := all.share()
	stretches := len(groups) * (len(groups) + 1) / 2
	limit := math.Log(2 * float64(stretches) / falseAlarm)
	for from := range groups {
		var here flow
		for _, g := range groups[from:] {
			here.add(g)
			x := here.share()
			if math.Abs(x-p) > leastChange*min(p, 1-p) &&
				float64(here.passed)*divergence(x, p) > limit {
				return false
			}
		}
	}
	return true
}

// divergence is the divergence of Kullback and Leibler between two distributions with two outcomes:
// one has the probabilities x and 1-x, the other p and 1-p.
func divergence(x, p float64) float64 {
	term := func(x, p float64) float64 {
		if x == 0 {
			return 0
		}
		return x * math.Log(x/p)
	}
	return term(x, p) + term(1-x, 1-p)
}
