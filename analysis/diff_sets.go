package analysis

import (
	"fmt"
	"slices"
	"strings"
)

// whyUnlike says why the durations of a span do not come from the same tuples in all runs. It is
// empty if each run has the durations of all tuples, or if all runs chose tuples by the same rules
// for ids.
func whyUnlike(c Change, all []*Answer) string {
	joins := slices.ContainsFunc(all, func(a *Answer) bool {
		return slices.ContainsFunc(a.Spans, func(l Span) bool {
			return l.Kind == "waiting" && l.To == c.To
		})
	})
	var first string
	for i, a := range all {
		rules, why := a.chosenRules(c, joins)
		if why != "" {
			return fmt.Sprintf("run %q lacks tuples: %s", a.Run, why)
		}
		if i == 0 {
			first = rules
		}
		if rules != first {
			return fmt.Sprintf("run %q has %s, and run %q has %s", all[0].Run, first, a.Run, rules)
		}
	}
	return ""
}

// chosenRules says by which rules the tuples of a span were chosen. If the run lacks tuples of the
// span for another reason, chosenRules returns that reason. joins says whether branches meet at the
// span's end.
func (a *Answer) chosenRules(c Change, joins bool) (rules, why string) {
	var all []string
	last := ""
	for _, name := range a.decidingPoints(c, joins) {
		i := slices.IndexFunc(a.Points, func(p Point) bool { return p.Name == name })
		if i < 0 {
			if len(a.Missing) > 0 {
				return "", fmt.Sprintf("it lacks %s, and %s is missing: %s", name,
					a.Missing[0].Part, a.Missing[0].Reason)
			}
			continue
		}
		switch p := &a.Points[i]; {
		case p.Completeness.Kept == All:
		case p.Completeness.Kept == Sampled && p.Rule != "" && p.Rule == last:
			all[len(all)-1] += ", " + name
		case p.Completeness.Kept == Sampled && p.Rule != "":
			all, last = append(all, fmt.Sprintf("the tuples of %s at %s", p.Rule, name)), p.Rule
		default:
			return "", p.Completeness.Because()
		}
	}
	for _, l := range spansLike(c, []*Answer{a}) {
		// The span may lack tuples for a reason that does not apply to any of its points.
		if l.Completeness.Kept != All && (l.Completeness.Kept != Sampled || len(all) == 0) {
			return "", l.Completeness.Because()
		}
	}
	if len(all) == 0 {
		return "all tuples", ""
	}
	return strings.Join(all, " and "), ""
}

// decidingPoints returns the points whose logs decide which tuples a span has:
//   - the ends of the span, and the points that a gap skips,
//   - if branches meet at the span's end (joins), all earlier points, which show whether a tuple
//     waited there,
//   - for a whole path, the points before its first point and after its last one. They show whether
//     a tuple began and ended at the span's ends.
func (a *Answer) decidingPoints(c Change, joins bool) []string {
	names := []string{c.From, c.To}
	for i := range a.Spans {
		l := &a.Spans[i]
		if c.Kind != "end-to-end" && l.Kind == "gap" && l.From == c.From && l.To == c.To {
			names = append(names, l.Past...)
		}
	}
	at := func(name string) int {
		return slices.IndexFunc(a.Points, func(p Point) bool { return p.Name == name })
	}
	from, to := at(c.From), at(c.To)
	for i, p := range a.Points {
		whole := c.Kind == "end-to-end" && (i < from || i > to)
		if (whole || joins && i < to) && !slices.Contains(names, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names
}
