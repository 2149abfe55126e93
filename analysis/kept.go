package analysis

import (
	"fmt"
	"strings"
)

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
	return c.Kept.Words() + ": " + c.Because()
}

// In the reason of a Completeness, one of these phrases follows a channel's name.
const (
	keepsOnly     = " keeps only "
	droppedEvents = " dropped events"
)

// Because says why the set lacks tuples. A reason that several channels share is given once.
func (c Completeness) Because() string {
	type reason struct {
		channels  []string
		one, many string
	}
	var reasons []*reason
	byMany := map[string]*reason{}
	for _, why := range c.Why {
		r := &reason{one: why}
		if channel, rule, ok := strings.Cut(why, keepsOnly); ok {
			r = &reason{[]string{channel}, keepsOnly + rule, " keep only " + rule}
		} else if channel, ok := strings.CutSuffix(why, droppedEvents); ok {
			r = &reason{[]string{channel}, droppedEvents, droppedEvents}
		}
		if same := byMany[r.many]; same != nil && r.many != "" {
			same.channels = append(same.channels, r.channels...)
			continue
		}
		byMany[r.many], reasons = r, append(reasons, r)
	}
	var all []string
	for _, r := range reasons {
		if len(r.channels) > 1 {
			r.one = r.many
		}
		all = append(all, enumerateNames(r.channels)+r.one)
	}
	return strings.Join(all, "; ")
}

// enumerateNames lists names as a sentence does. If there are many, it lists only the first.
func enumerateNames(names []string) string {
	const most = 4
	n := len(names)
	switch {
	case n < 2:
		return strings.Join(names, "")
	case n <= most:
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return fmt.Sprintf("%s and %d others", strings.Join(names[:most-1], ", "), n-most+1)
}

// ofAll says how many of the run's events are in the logs. It collects what the logs of all points
// lack.
func (in *input) ofAll(told []told) Completeness {
	c := in.ofRun()
	for i := range told {
		if s := &in.sources[i]; s.point >= 0 {
			c = c.combineWith(told[i].keptEvents(s))
		}
	}
	for _, p := range in.points {
		if why := in.unseen[p]; why != "" {
			c = c.combineWith(Completeness{Unknown, []string{why}})
		}
	}
	return c
}
