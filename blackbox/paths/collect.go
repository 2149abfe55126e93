package paths

import (
	"math/rand/v2"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox/link"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// A collector makes an answer from trees, which may come in several parts.
type collector struct {
	*Answer
	o               *Options
	times           *messages.Times
	forms, programs map[string]int32
	groups          map[int32]*group // by canonical form
	order           []*group         // in the order of their first trees
}

func newCollector(a *Answer, times *messages.Times, o *Options) *collector {
	return &collector{Answer: a, o: o, times: times, forms: map[string]int32{},
		programs: map[string]int32{}, groups: map[int32]*group{}}
}

// add adds calls of which no other call is the cause or the effect. It returns the trees that the
// filter chooses.
func (c *collector) add(seen *Seen, links []link.Link) (*meter, []int32) {
	c.Pinned += len(seen.Known)
	for i := range links {
		if !seen.Calls[i].Answers {
			c.Calls++
		}
		if seen.Calls[i].Caller >= 0 {
			c.Links++
			if links[i].Probability >= link.Said {
				c.Said++
			}
			if links[i].Probability >= link.Sure {
				c.Sure++
			}
		}
	}
	f := newForest(seen, links, c.forms, c.programs)
	c.Requests += len(f.roots)
	m := &meter{forest: f, times: c.times, parts: make([]parts, len(seen.Calls))}
	var chosen []int32
	for _, r := range f.roots {
		m.measure(r)
		if !m.isChosen(r, &c.o.Filter) {
			continue
		}
		chosen = append(chosen, r)
		g := c.groups[f.form[r]]
		if g == nil {
			g = &group{form: f.form[r], random: rand.New(rand.NewPCG(1, 0))}
			c.groups[g.form], c.order = g, append(c.order, g)
		}
		g.add(m, r)
		c.keepSlow(m, r)
	}
	c.Chosen += len(chosen)
	return m, chosen
}

// keepSlow keeps a tree if it is one of the slowest so far. Trees whose time is not known are left
// out.
func (c *collector) keepSlow(m *meter, root int32) {
	whole := m.parts[root].whole
	if !whole.known {
		return
	}
	at := len(c.Slowest)
	for at > 0 && middle(*c.Slowest[at-1].Whole) < middle(whole.Interval) {
		at--
	}
	if at < c.o.Slowest {
		c.Slowest = slices.Insert(c.Slowest, at, m.describeTree(root))
		c.Slowest = c.Slowest[:min(len(c.Slowest), c.o.Slowest)]
	}
}

// finish describes the patterns. It returns the index of each pattern by the pattern's form. Before
// finish, the field Pattern of a path is not this index, but the number of the path's form.
func (c *collector) finish() map[int]int {
	number := map[int]int{}
	c.Patterns = describePatterns(c.order)
	for i := range c.Patterns {
		number[int(c.Patterns[i].form)] = i
	}
	for i := range c.Slowest {
		c.Slowest[i].Pattern = number[c.Slowest[i].Pattern]
	}
	return number
}

// addWhole adds all calls, and finishes the answer.
func (c *collector) addWhole(seen *Seen, links []link.Link) error {
	m, chosen := c.add(seen, links)
	number := c.finish()
	for _, r := range chosen {
		if c.o.Each == nil {
			break
		}
		p := m.describeTree(r)
		p.Pattern = number[p.Pattern]
		if err := c.o.Each(&p); err != nil {
			return err
		}
	}
	return nil
}
