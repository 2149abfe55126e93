package truth

import (
	"fmt"
	"math"
	"sort"

	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Counters are the counters of the virtual nodes of a run. They are immutable, and any number of
// goroutines may use them.
type Counters struct {
	nodes map[string]*counter
}

type counter struct {
	machine string // the machine with the physical counter behind this one
	config  vnode.CounterConfig
	fast    *vnode.Counter
	exact   *vnode.Truth
}

// Of reads the truth of a run. If the run has none, because its nodes are real, Of returns nil. If
// Of cannot read the truth about a node, it returns this part of the run as missing.
func Of(run *runs.Directory) (*Counters, []runs.Missing) {
	c := &Counters{nodes: map[string]*counter{}}
	var missing []runs.Missing
	for _, n := range run.Run.Nodes {
		if !n.Virtual {
			continue
		}
		text, err := run.Truth(n.Name)
		if err == nil && text == nil {
			continue // the run does not contain this node's configuration
		}
		if err == nil {
			err = c.add(n.Name, n.ID, text)
		}
		if err != nil {
			missing = append(missing,
				runs.Missing{Part: runs.TruthPath(n.Name), Reason: err.Error()})
		}
	}
	if len(c.nodes) == 0 {
		return nil, missing
	}
	return c, missing
}

func (c *Counters) add(node, machine string, text []byte) error {
	config, err := vnode.ParseConfig(text)
	if err != nil {
		return err
	}
	if config.Name != node {
		return fmt.Errorf("it is the truth about node %q", config.Name)
	}
	n := &counter{machine: machine, config: config.Counter}
	if n.fast, err = vnode.NewCounter(config.Counter); err != nil {
		return err
	}
	if n.exact, err = vnode.NewTruth(config.Counter); err != nil {
		return err
	}
	c.nodes[node] = n
	return nil
}

// Truth returns a range of readings of the counter of a node, whose name is other. The counter had
// these readings while the counter of a second node, whose name is node, had the given reading. If
// that is not known, ok is false. The method Truth can be the value of the field Truth of
// analysis.Options.
func (c *Counters) Truth(node string, reading uint64, other string) (read tscratio.Interval,
	ok bool) {
	from, into := c.nodes[node], c.nodes[other]
	if from == nil || into == nil || from.machine != into.machine {
		return tscratio.Interval{}, false
	}
	if from == into {
		return tscratio.Interval{Lo: reading, Hi: reading}, true
	}
	physical, ok := from.instants(reading)
	if !ok {
		return tscratio.Interval{}, false
	}
	read.Lo = into.exact.Reading(physical.First)
	if read.Hi = read.Lo; physical.Last != physical.First {
		read.Hi = into.exact.Reading(physical.Last)
	}
	return read, read.Lo <= read.Hi
}

// instants returns the physical readings at which the counter has the given reading. If there are
// none, or if the counter had the reading twice, it returns false.
func (c *counter) instants(reading uint64) (vnode.Span, bool) {
	if len(c.config.Steps) > 0 { // the counter may go back: the exact inverse finds all instants
		spans := c.exact.Instants(reading)
		if len(spans) != 1 {
			return vnode.Span{}, false
		}
		return spans[0], true
	}
	rate := 1 + math.Ldexp(float64(c.config.Rate_2e40), -40)
	guess := c.config.Origin
	// The rate wanders by a few millionths, so in each round the error shrinks to a few millionths
	// of what it was.
	for range 8 {
		off := int64(reading - c.fast.Virtual(guess))
		if guess += uint64(int64(float64(off) / rate)); -2 < off && off < 2 {
			break
		}
	}
	reach := 4 * (c.config.Quantum_cycles + 4)
	low := guess - min(reach, guess)
	// The variable first is a function. It returns the smallest physical reading, not below low, at
	// which the counter shows at least the value least.
	first := func(least uint64) uint64 {
		return low +
			uint64(sort.Search(int(2*reach),
				func(i int) bool { return int64(c.fast.Virtual(low+uint64(i))-least) >= 0 }))
	}
	span := vnode.Span{First: first(reading), Last: first(reading+c.config.Quantum_cycles) - 1}
	return span, span.First <= span.Last && c.fast.Virtual(span.First) == reading &&
		c.fast.Virtual(span.Last) == reading
}
