package analysis

import "strings"

// Words says in words what a set lacks. It is empty if nothing is lacking.
func (k Kept) Words() string {
	switch k {
	case Sampled:
		return "sampled"
	case Lossy:
		return "some events lost"
	case Unknown:
		return "not known to be all"
	}
	return ""
}

// Text says in words what a set lacks, and why. It is empty if nothing is lacking.
func (c Completeness) Text() string {
	if c.Kept.Words() == "" {
		return ""
	}
	return c.Kept.Words() + ": " + strings.Join(c.Why, "; ")
}

// ofAll says how many of the run's events are in the logs: what any of its points lacks.
func (in *input) ofAll(told []told) Completeness {
	c := in.ofRun()
	for i := range told {
		if s := &in.sources[i]; s.point >= 0 {
			c = c.with(told[i].kept(s))
		}
	}
	for _, p := range in.points {
		if why := in.unseen[p]; why != "" {
			c = c.with(Completeness{Unknown, []string{why}})
		}
	}
	return c
}
