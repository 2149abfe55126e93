package analysis

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// These are the largest numbers of points and sources that one answer can distinguish. The mask of
// a tuple has a bit for each point, hence 64 points.
const (
	maxPoints  = 64
	maxSources = 1<<16 - 1
	// maxClosed is the largest number of nodes for which all pairs are compared. Third nodes are
	// not used if a node was measured, on average, with more than maxClosed others: the number of
	// paths over third nodes grows with the cube of the number of nodes.
	maxClosed = 32
)

// ErrNothing is returned for a run with nothing to analyze: it names no nodes.
var ErrNothing = errors.New("nothing to analyze")

// ErrEdge is returned for a declared edge to a point that the run does not have.
var ErrEdge = errors.New("declare edges between points of the run")

// input is what an answer is made from.
type input struct {
	run     *runs.Directory
	options Options
	nodes   []nodeInput // by name
	sources []source
	points  []point // sorted by actor, then in the order in which tuples pass them
	clocks  clocks
	missing []runs.Missing
	// the first entries of missing were noted when the run was made; this is their number
	recorded int
	unseen   map[point]string   // why not all logs of a point are read
	silent   []string           // nodes that should have logs, and have none
	unusable map[point]string   // by point: a chosen log that cannot be used in full
	pauses   *pausesOf          // nil: no JVM logged pauses
	handed   []renamingOperator // of the operators that give tuples other ids
	near     []NearEdge
	openEnds string // why paths may begin or go on at points without a row
	findings []Finding
}

// nodeInput is a node in one epoch. A node whose counter was interrupted becomes one nodeInput for
// each epoch, each with its own name. The readings of two epochs have nothing to do with each
// other.
type nodeInput struct {
	runs.Node
	node      string // the run's name for the node, in all its epochs
	described tscratio.Node
}

// epochName is the name of a node in one of its epochs. Epochs are counted from 0.
func epochName(n *runs.Node, epoch int) string {
	if len(n.Earlier) == 0 {
		return n.Name
	}
	return fmt.Sprintf("%s (epoch %d)", n.Name, epoch+1)
}

// nodeOf is the index of a node in an epoch; -1: the run has no such node.
func (in *input) nodeOf(node, epoch string) int {
	return slices.IndexFunc(in.nodes, func(n nodeInput) bool {
		return n.node == node && n.Epoch == epoch
	})
}

// source is the log of one ring in one epoch of its node. It has the events of one channel. A
// channel that is opened again has another ring.
type source struct {
	node     int
	point    int       // -1: a return trip or pauses, which are joined separately
	trip     tripEvent // noTrip: neither part of a return trip nor a pause
	segments []logstore.Segment
	header   logstore.Header
	events   uint64 // approximate number; for sizing
	lo, hi   uint64 // smallest and largest counter of its rows
	name     string // name of the channel
}

// openInput lists the logs and relates the nodes.
func openInput(dir *runs.Directory, o Options) (*input, error) {
	in := &input{run: dir, options: o, unseen: map[point]string{},
		unusable: map[point]string{}}
	in.missing = append(in.missing, dir.Run.Missing...)
	in.recorded = len(in.missing)
	pairs, missing := dir.Relations()
	logs, unlisted := dir.Logs()
	missing = append(missing, unlisted...)
	in.noteMissing(missing...)
	for _, m := range unlisted {
		if s, ok := logstore.ParseSegment(m.Part); ok {
			in.unseen[pointOf(s)] = fmt.Sprintf("not all logs of %s are there", pointOf(s))
			in.noteUnusable(s, path.Base(path.Dir(m.Part)))
		}
	}
	in.noteMissing(dir.Absent(pairs, logs, missing)...)
	if err := in.relatePairs(pairs); err != nil {
		return nil, err
	}
	in.listSources(logs)
	return in, in.chooseReference()
}

// noteMissing notes missing parts, each once. The run itself may contain notes from the time when
// it was made. Such a note prevents a new note only if the new one says exactly the same.
func (in *input) noteMissing(missing ...runs.Missing) {
	for _, m := range missing {
		known := slices.Contains(in.missing[:in.recorded], m)
		if !known && !slices.ContainsFunc(in.missing[in.recorded:], func(known runs.Missing) bool {
			return known.Part == m.Part
		}) {
			in.missing = append(in.missing, m)
		}
	}
}

// addFinding adds a finding.
func (in *input) addFinding(kind FindingKind, format string, args ...any) {
	in.findings = append(in.findings, Finding{Kind: kind, Text: fmt.Sprintf(format, args...)})
}

// relatePairs computes the relation of each pair of nodes. Then it makes the closure, which can
// relate two nodes by way of other nodes.
func (in *input) relatePairs(pairs []*tscratio.Pair) error {
	in.nameEpochs()
	described := map[string]tscratio.Node{}
	var relations []*tscratio.Relation
	for _, p := range pairs {
		part := in.run.Run.PairPath(p.A, p.B)
		related, err := in.relatePair(p, described)
		if err != nil {
			in.noteMissing(runs.Missing{Part: part, Reason: err.Error()})
			continue
		}
		relations = append(relations, related.intoA, related.intoB)
		described[p.A.Name], described[p.B.Name] = p.A, p.B
		in.clocks.pairs = append(in.clocks.pairs, related)
	}
	if len(relations) > maxClosed*len(described) {
		in.options.ThirdNodes = tscratio.ThirdNone
	}
	var err error
	if in.clocks.closure, err = tscratio.NewClosure(relations, in.options.ThirdNodes); err != nil {
		return err
	}
	for i := range in.nodes {
		n := &in.nodes[i]
		var ok bool
		if n.described, ok = described[n.Name]; !ok {
			n.described = tscratio.Node{
				Name: n.Name, Epoch: n.Epoch, Quantum_cycles: max(n.Quantum_cycles, 1),
				CoreSlack_cycles: n.CoreSlack_cycles,
			}
		}
	}
	in.findPairsApart(described)
	return nil
}

// nameEpochs makes one nodeInput for each epoch of each node of the run.
func (in *input) nameEpochs() {
	for _, n := range in.run.Run.Nodes {
		for i, e := range n.Epochs() {
			of := n
			of.Name, of.Epoch, of.Quantum_cycles, of.CoreSlack_cycles = epochName(&n, i), e.Epoch,
				e.Quantum_cycles, e.CoreSlack_cycles
			in.nodes = append(in.nodes, nodeInput{Node: of, node: n.Name})
		}
		if len(n.Earlier) > 0 {
			in.addFinding(FindUndecided,
				"the counter of node %s was interrupted during the run: each "+
					"of its %d epochs is a separate node here, and nothing is known about "+
					"the time "+
					"between them", n.Name, len(n.Earlier)+1)
		}
	}
	slices.SortStableFunc(in.nodes, func(a, b nodeInput) int { return cmpStrings(a.node, b.node) })
}

// relatePair evaluates a pair in both directions. It gives the pair's nodes the names of their
// epochs. The pair must not contradict what earlier pairs say about its nodes.
func (in *input) relatePair(p *tscratio.Pair, described map[string]tscratio.Node) (
	related pairClock, err error) {
	for _, n := range []*tscratio.Node{&p.A, &p.B} {
		// readRelation in package runs has made sure that the run has this node.
		n.Name = in.nodes[in.nodeOf(n.Name, n.Epoch)].Name
	}
	for _, n := range []tscratio.Node{p.B, p.A} {
		if known, ok := described[n.Name]; ok && known != n {
			return related, fmt.Errorf("it describes node %q differently from other relations",
				n.Name)
		}
	}
	related = pairClock{pair: p, a: p.A.Name, b: p.B.Name}
	w := cmp.Or(in.options.Wander, p.Declared.Wander)
	if related.intoA, err = p.Relate(tscratio.SideA, w); err == nil {
		related.intoB, err = p.Relate(tscratio.SideB, w)
	}
	return related, err
}

// findPairsApart adds a finding for each pair of nodes that no chain of relations connects.
func (in *input) findPairsApart(described map[string]tscratio.Node) {
	for i, a := range in.nodes {
		// In a run of many nodes, only pairs with the first node are checked: nodes that are
		// related to it are also related to each other.
		if i == 1 && len(in.nodes) > maxClosed {
			break
		}
		for _, b := range in.nodes[i+1:] {
			_, knownA := described[a.Name]
			_, knownB := described[b.Name]
			if !knownA || !knownB || a.node == b.node { // reported elsewhere
				continue
			}
			if err := in.clocks.closure.Related(a.Name, b.Name); err != nil {
				in.addFinding(FindUndecided, "durations between %s and %s are not known: %v",
					a.Name,
					b.Name, err)
			}
		}
	}
}

// listSources makes a source of each ring's log.
func (in *input) listSources(logs []runs.NodeLogs) {
	rank := map[point]int{}
	in.noteMissing(in.options.Filter.unmatchedNames(sortedNames(in.run.Run.Nodes, logs))...)
	for _, n := range in.run.Run.Nodes {
		if !n.NoLogs && !slices.ContainsFunc(logs, func(l runs.NodeLogs) bool {
			return l.Node == n.Name && len(l.Segments) > 0
		}) {
			in.silent = append(in.silent, n.Name)
		}
	}
	for _, l := range logs {
		if _, known := in.run.Run.Node(l.Node); !known {
			in.noteMissing(runs.Missing{
				Part: runs.LogsPath(l.Node), Reason: "the run names no such node",
			})
			continue
		}
		for rest := l.Segments; len(rest) > 0; {
			ring := logstore.SegmentsOf(rest, rest[0].Channel, rest[0].Incarnation)
			rest = rest[len(ring):]
			in.addSources(l.Node, ring, rank)
		}
	}
	in.leaveOut(rank)
	for p := range in.unusable {
		if len(rank) < maxPoints {
			rank[p] = 0
		}
	}
	in.points = slices.SortedFunc(maps.Keys(rank), func(a, b point) int {
		if a.actor != b.actor {
			return cmpStrings(a.actor, b.actor)
		}
		if x, y := pointOrder[a.name], pointOrder[b.name]; x != y {
			return x - y
		}
		return cmpStrings(a.name, b.name)
	})
	for i, p := range in.points {
		rank[p] = i
	}
	for i := range in.sources {
		s := &in.sources[i]
		s.point = -1
		if s.trip == noTrip {
			s.point = rank[pointOf(s.segments[0])]
		}
	}
}

// hasPoint reports whether a log of a point is read.
func (in *input) hasPoint(p point) bool { return slices.Contains(in.points, p) }

// sortedNames returns the sorted names of nodes, and of channels that have a log.
func sortedNames(of []runs.Node, logs []runs.NodeLogs) (nodes, channels []string) {
	for _, n := range of {
		nodes = append(nodes, n.Name)
	}
	for _, l := range logs {
		for _, s := range l.Segments {
			channels = append(channels, s.Channel.String())
		}
	}
	slices.Sort(nodes)
	slices.Sort(channels)
	return slices.Compact(nodes), slices.Compact(channels)
}

func pointOf(s logstore.Segment) point { return point{s.Channel.Actor, s.Channel.Point} }

// addSources opens the log of one ring, and makes a source for each epoch in the log.
func (in *input) addSources(node string, ring []logstore.Segment, rank map[point]int) {
	name := ring[0].Channel.String()
	if name == blackbox.Channel {
		return // its events are messages and no tuples: see package blackbox/messages
	}
	if !in.options.Filter.choosesChannel(node, name, ring[0].Channel.Point) {
		in.unseen[pointOf(ring[0])] = fmt.Sprintf("not all channels of %s were chosen",
			pointOf(ring[0]))
		return
	}
	part := runs.LogsPath(node) + "/" + name
	miss := func(format string, args ...any) {
		in.unseen[pointOf(ring[0])] = fmt.Sprintf("not all logs of %s can be used",
			pointOf(ring[0]))
		in.noteUnusable(ring[0], node)
		in.noteMissing(runs.Missing{Part: part, Reason: fmt.Sprintf(format, args...)})
	}
	var s *source           // the source of the previous segment
	from := len(in.sources) // index of the first source of this ring
	begin := 0              // the first segment of the current source
	for i, segment := range ring {
		f, err := logstore.OpenFile(segment.Path)
		if err != nil {
			miss("%v", err)
			if s != nil {
				s.segments = ring[begin : i+1] // whoever reads the source reports what is missing
			}
			continue
		}
		header := f.Header()
		of := in.nodeOf(node, header.Epoch)
		if of < 0 {
			if f.Blocks() > 0 {
				n, _ := in.run.Run.Node(node)
				miss("it is of epoch %q, but the run has epoch %q of the node", header.Epoch,
					n.Epoch)
			}
			f.Close()
			s, begin = nil, i+1
			continue
		}
		if s == nil || s.node != of {
			if s != nil {
				begin = i
			}
			in.sources = append(in.sources, source{
				node: of, header: header, name: name, trip: tripOf(segment.Channel.Point),
				lo: ^uint64(0),
			})
			s = &in.sources[len(in.sources)-1]
		}
		s.segments = ring[begin : i+1]
		if lo, hi, ok := f.CounterRange(); ok {
			s.lo, s.hi = min(s.lo, lo), max(s.hi, hi)
		}
		if places, err := f.Continues(); err == nil {
			var rows uint64 // since the ring began
			for _, p := range places {
				if p.Kind == logstore.Events || p.Kind == logstore.Links {
					rows += p.Next
				}
			}
			s.events = max(s.events, rows)
		}
		f.Close()
	}
	if len(in.sources) > from && in.sources[from].trip == noTrip {
		rank[pointOf(ring[0])] = 0
	}
}
