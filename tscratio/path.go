package tscratio

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// path is a way from one node to another: their direct relation, or a relation into a third node
// and a relation from there.
type path struct{ first, second *Relation }

func (p path) verdict() Verdict {
	if p.second != nil && p.second.Verdict == Suspect {
		return Suspect
	}
	return p.first.Verdict
}

func (p path) nodes() Path {
	names := Path{p.first.From.Name, p.first.Into.Name}
	if p.second != nil {
		names = append(names, p.second.Into.Name)
	}
	return names
}

// count translates an interval of the first node's count into the last node's count.
func (p path) count(c Interval) (Interval, error) {
	c, err := p.first.count(c)
	if err != nil || p.second == nil {
		return c, err
	}
	return p.second.count(c)
}

// Path names the nodes through which a value was translated: first the node that took the reading,
// and last the node that gives the unit.
type Path []string

func (p Path) String() string { return strings.Join(p, " → ") }

// paths returns all paths from one node to another that ThirdNodes permits, the direct relation
// first. If there is none, the error gives the reason.
func (c *Closure) paths(from, into int) ([]path, error) {
	var ps []path
	direct := c.relations[from][into]
	if direct != nil {
		ps = append(ps, path{first: direct})
	}
	thirds := slices.Collect(c.over(from, into))
	if n := c.third.needed(); len(thirds) >= n {
		ps = append(ps, thirds...)
	} else if direct == nil && len(thirds) > 0 {
		return nil, fmt.Errorf("%q and %q were not measured with each other, and %d third "+
			"nodes are too few to relate them with third nodes %v: %w",
			c.names[from], c.names[into], len(thirds), c.third, ErrNoPath)
	}
	if len(ps) == 0 {
		return nil, ErrNoPath
	}
	return ps, nil
}

// search collects the durations that several methods find, and intersects them. If any method is
// consistent, the durations of suspect methods do not count.
type search struct {
	found     [2]bool // indexed by verdict, like all and best
	all, best [2]Duration
	err       error
}

func (s *search) offer(d Elapsed, by Scenario, v Verdict, err error) {
	if err != nil {
		// A disagreement between paths is the error to report, even if a method that lacked a
		// relation failed first.
		var broken *DisagreementError
		if s.err == nil || errors.As(err, &broken) {
			s.err = err
		}
		return
	}
	if !s.found[v] {
		s.found[v] = true
		s.all[v] = Duration{d, by, v}
		s.best[v] = s.all[v]
		return
	}
	if d.Width() < s.best[v].Width() {
		s.best[v] = Duration{d, by, v}
	}
	s.all[v].Elapsed = s.all[v].Elapsed.Intersect(d)
}

func (s *search) result() (Duration, error) {
	var broken *DisagreementError
	if errors.As(s.err, &broken) {
		return Duration{}, s.err
	}
	for _, v := range []Verdict{Consistent, Suspect} {
		if !s.found[v] {
			continue
		}
		d := s.all[v]
		d.Scenario = s.best[v].Scenario
		if !d.Valid() {
			return Duration{}, fmt.Errorf("methods for it have nothing in common (the tightest, "+
				"%v, "+
				"gives %v): %w", d.Scenario, s.best[v].Elapsed, ErrAssumption)
		}
		return d, nil
	}
	return Duration{}, s.err
}
