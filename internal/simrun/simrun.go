package simrun

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Hz is the frequency of the true clock, the clock of the simulation, which no simulated node can
// read.
const Hz = 2_600_000_000

// Node is a node with its counter.
type Node struct {
	Name    string
	Start   uint64 // reading of the counter at time 0
	Rate    int64  // by how much the counter runs faster than the true clock, in parts per 10^9
	Quantum uint64 // 0 means 1
	Epoch   string // name of the epoch; if empty, "epoch-" and the node's name
}

// Reading returns the counter's reading at true time t.
func (n *Node) Reading(t uint64) uint64 {
	hi, lo := bits.Mul64(t, uint64(1_000_000_000+n.Rate))
	q, _ := bits.Div64(hi, lo, 1_000_000_000)
	c := n.Start + q
	return c - c%max(n.Quantum, 1)
}

// Nodes returns n nodes with random counters. Their names are A, B and so on.
func Nodes(rng *rand.Rand, n int) []Node {
	var nodes []Node
	for i := range n {
		nodes = append(nodes, Node{Name: string(rune('A' + i)), Start: rng.Uint64N(1 << 61),
			Rate: rng.Int64N(100_000) - 50_000})
	}
	return nodes
}

// Record is an event or a link that a channel kept.
type Record struct {
	Time   uint64 // in cycles of the true clock; not used for links
	ID     uint64 // for a link, the parent's id
	Child  uint64
	IsLink bool
}

// Channel is a channel with the records that it kept. The records are in order.
type Channel struct {
	Node    int
	Name    string
	Handler string // with its parameters, such as "xoy x=3 y=4"; "" means buffered
	Process int    // id of the program's process
	Records []Record
	// Dropped is the number of events or links that the channel dropped after the last record.
	Dropped uint64
}

// Relate returns a pair of nodes that measured each other during the given time. Trains are at most
// a second apart. The nodes start trains in turn.
func Relate(rng *rand.Rand, a, b *Node, from, to uint64) (*tscratio.Pair, error) {
	describe := func(n *Node) tscratio.Node {
		return tscratio.Node{Name: n.Name, Epoch: n.epoch(), Nominal_hz: Hz,
			Quantum_cycles: max(n.Quantum, 1)}
	}
	pair, err := tscratio.NewPair(describe(a), describe(b), tscratio.DefaultAssumptions())
	if err != nil {
		return nil, err
	}
	return pair, Measure(rng, pair, a, b, from, to)
}

// Measure simulates trains between two nodes during the given time, and adds them to pair.
func Measure(rng *rand.Rand, pair *tscratio.Pair, a, b *Node, from, to uint64) error {
	by := tscratio.StartedByA
	step := min(uint64(Hz), max((to-from)/20, Hz/1000))
	for t := from; t <= to; t += step {
		x, y := a, b
		if by == tscratio.StartedByB {
			x, y = b, a
		}
		var train tscratio.Train
		train.By = by
		at := t
		for range 5 {
			stamp := func(n *Node, delay uint64) tscratio.Interval {
				at += delay
				return tscratio.At(n.Reading(at))
			}
			train.Exchanges = append(train.Exchanges, tscratio.Exchange{
				Sent: stamp(x, 1000), Received: stamp(y, 1000+rng.Uint64N(20000)),
				Answered: stamp(y, 500), Returned: stamp(x, 1000+rng.Uint64N(20000)),
			})
		}
		if err := pair.Add(train); err != nil {
			return err
		}
		by = 1 - by
	}
	return nil
}

func (n *Node) epoch() string { return cmp.Or(n.Epoch, "epoch-"+n.Name) }

// Begin creates a run of nodes. The run has a relation of each pair of nodes. The relations cover
// the given time.
func Begin(rng *rand.Rand, parent, name string, nodes []Node, from, to uint64) (*runs.Draft,
	error) {
	r := runs.Run{Name: name, Begun: runs.UTC{Lo_ns: 1, Hi_ns: 2},
		Ended: runs.UTC{Lo_ns: 3, Hi_ns: 4}}
	for i := range nodes {
		r.Nodes = append(r.Nodes, runs.Node{
			Name: nodes[i].Name, Number: i, Epoch: nodes[i].epoch(),
			Quantum_cycles: max(nodes[i].Quantum, 1),
			FrequencyLo_hz: Hz * 0.999, FrequencyHi_hz: Hz * 1.001,
			FrequencySource: "the simulation",
		})
	}
	d, err := runs.Create(parent, r)
	if err != nil {
		return nil, err
	}
	for i := range nodes {
		for j := range nodes[:i] {
			pair, err := Relate(rng, &nodes[j], &nodes[i], from, to)
			if err != nil {
				return nil, err
			}
			if err := d.PutRelation(pair); err != nil {
				return nil, err
			}
		}
	}
	return d, nil
}

// Log writes the log of a channel.
type Log struct {
	log   *logstore.Log
	node  *Node
	inc   logstore.Incarnation
	block logstore.Block
}

// OpenLog begins the log of a channel.
func OpenLog(d *runs.Draft, node *Node, name, handler string, number int) (*Log, error) {
	return openLog(d, node, name, handler, number, 0)
}

func openLog(d *runs.Draft, node *Node, name, handler string, number, process int) (*Log, error) {
	parsed, err := channel.ParseName(name)
	if err != nil {
		return nil, err
	}
	h := logstore.Header{Node: node.Name, Epoch: node.epoch(), Channel: parsed, ProcessID: process,
		Quantum_cycles: max(node.Quantum, 1), Counter: node.Reading(0), UTCHi_ns: 1}
	words := strings.Fields(cmp.Or(handler, "buffered"))
	params := channel.Params{}
	for _, w := range words[1:] {
		name, value, _ := strings.Cut(w, "=")
		params[name] = value
	}
	if h.Settings, err = channel.NewSettings(words[0], params); err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint64(h.Incarnation[:], uint64(number)+1)
	dir, err := d.LogDirectory(node.Name)
	if err != nil {
		return nil, err
	}
	l := &Log{node: node, inc: h.Incarnation}
	l.log, err = logstore.OpenLog(nil, dir, h, 0)
	return l, err
}

// Event adds an event.
func (l *Log) Event(time, id uint64) error {
	if len(l.block.Links) > 0 || len(l.block.Events) == logstore.MaxRows {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.block.Events = append(l.block.Events, logstore.Event{Counter: l.node.Reading(time), ID: id})
	return nil
}

// Link adds a link.
func (l *Log) Link(parent, child uint64) error {
	if len(l.block.Events) > 0 || len(l.block.Links) == logstore.MaxRows {
		if err := l.flush(); err != nil {
			return err
		}
	}
	l.block.Links = append(l.block.Links, logstore.Link{Parent: parent, Child: child})
	return nil
}

// Enter continues the log in another epoch. node describes the counter in that epoch.
func (l *Log) Enter(node *Node) error {
	if err := l.flush(); err != nil {
		return err
	}
	l.node = node
	return l.log.Enter(node.epoch(), node.Reading(0), 0, 1)
}

// Append adds a block of rows other than events and links.
func (l *Log) Append(b logstore.Block) error {
	if err := l.flush(); err != nil {
		return err
	}
	b.Incarnation = l.inc
	b.First = l.log.Next(b.Kind(), b.Shard)
	return l.log.Append(&b)
}

func (l *Log) flush() error {
	if l.block.Len() == 0 {
		return nil
	}
	l.block.Incarnation = l.inc
	l.block.First = l.log.Next(l.block.Kind(), 0)
	err := l.log.Append(&l.block)
	l.block.Events, l.block.Links = l.block.Events[:0], l.block.Links[:0]
	return err
}

// Seal ends the log.
func (l *Log) Seal() error { return errors.Join(l.flush(), l.log.Seal()) }

// Write makes a complete run with these channels. The relations cover the times of all records.
func Write(rng *rand.Rand, parent, name string, nodes []Node, channels []Channel) error {
	var from, to uint64 = 1 << 63, 0
	for _, c := range channels {
		for _, r := range c.Records {
			if !r.IsLink {
				from, to = min(from, r.Time), max(to, r.Time)
			}
		}
	}
	if from > to {
		from, to = Hz, 2*Hz
	}
	d, err := Begin(rng, parent, name, nodes, from-min(from, Hz), to+Hz)
	if err != nil {
		return err
	}
	for i, c := range channels {
		l, err := openLog(d, &nodes[c.Node], c.Name, c.Handler, i, c.Process)
		if err != nil {
			return err
		}
		for _, r := range c.Records {
			if r.IsLink {
				err = errors.Join(err, l.Link(r.ID, r.Child))
			} else {
				err = errors.Join(err, l.Event(r.Time, r.ID))
			}
		}
		if c.Dropped > 0 {
			of := logstore.Events
			if c.Handler == "link" {
				of = logstore.Links
			}
			err = errors.Join(err, l.Append(logstore.Block{Drops: []logstore.Drop{{
				Of: uint64(of), Reason: uint64(logstore.RingFull),
				At: uint64(len(c.Records)), Count: c.Dropped,
			}}}))
		}
		if err := errors.Join(err, l.Seal()); err != nil {
			return fmt.Errorf("log of %q: %w", c.Name, err)
		}
	}
	_, err = d.Complete()
	return err
}

// InOrder sorts a channel's records by time. Programs log in this order.
func InOrder(records []Record) {
	slices.SortStableFunc(records, func(a, b Record) int { return cmp.Compare(a.Time, b.Time) })
}
