package replay

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

var (
	// ErrNothing is returned for a run without events that can be replayed.
	ErrNothing = errors.New("nothing to replay")
	// ErrCycle is returned if an event would be before itself. In that case, messages were mistaken
	// for other messages, or the logs are not of one run.
	ErrCycle = errors.New("events are before themselves")
	// ErrEdge is returned for an edge to a point that the run does not have.
	ErrEdge = errors.New("no such point")
)

// Options say how to read a run.
type Options struct {
	Reference  string // the node in whose cycles times are given
	Wander     tscratio.Wander
	ThirdNodes tscratio.ThirdNodes

	// Edges are pairs of points, each as actor/point. If a tuple passes the first point of a pair
	// on one node and the second on another node, a message went from the first event to the
	// second.
	Edges [][2]string

	// Renames are the actors that send each tuple on under another id, and log a link from the old
	// id to the new one. The events under both ids are events of one tuple.
	Renames []string

	// Made are pairs of points, as in Edges. Suppose logged links say that tuple t was made of
	// tuple s. If s passes the first point of a pair on one node, and t passes the second point on
	// another node, then the event of s is before the event of t.
	Made [][2]string

	// Messages are the captured messages. They order events even if no id occurs on both nodes.
	Messages []Message

	// Epsilon_cycles replaces the proven bounds of the nodes' clocks: any two clocks may differ by
	// this number of cycles. It is for comparisons with clocks that have only one epsilon. With 0,
	// the proven bounds apply.
	Epsilon_cycles uint64
}

// Message is a captured message. All events that the sending node logged before it sent the message
// are before all events that the receiving node logged after it received the message.
type Message struct{ Sent, Received Moment }

// Moment is a reading of a node's counter.
type Moment struct {
	Node, Epoch string
	Reading     uint64
}

// Run is a run that can be replayed. Only one goroutine may use it.
type Run struct {
	Nodes    []string // in each epoch, as package analysis names them
	Channels []Channel
	Unusable []string // logs that cannot be used, with the reason

	options Options
	logs    openLogs
	lanes   []*lane
	senders [][]uint16 // by point: the points from which messages come
	makers  [][]uint16 // by point: the points in Options.Made before it
	links   links
	points  []string
}

// Channel is a channel on one node.
type Channel struct {
	Name    string
	Actor   string
	Point   string
	Handler string // as the log's header has it
	Node    int
	point   uint16
}

// Open prepares the logs and relations of a run. The caller must call Close.
func Open(dir *runs.Directory, o Options) (*Run, error) {
	times, err := dir.Times(o.Wander, o.ThirdNodes)
	if err != nil {
		return nil, err
	}
	r := &Run{options: o}
	logs, missing := dir.Logs()
	for _, m := range missing {
		r.Unusable = append(r.Unusable, m.String())
	}
	for _, l := range logs {
		for rest := l.Segments; len(rest) > 0; {
			ring := logstore.SegmentsOf(rest, rest[0].Channel, rest[0].Incarnation)
			rest = rest[len(ring):]
			if c := ring[0].Channel; c.String() == blackbox.Channel || otherEvents[c.Point] {
				continue
			}
			for _, s := range ring {
				r.addSegment(times, l.Node, s)
			}
		}
	}
	r.lanes = slices.DeleteFunc(r.lanes, func(l *lane) bool { return len(l.feeds) == 0 })
	for _, l := range r.lanes {
		if l.view == nil {
			r.Unusable = append(r.Unusable, fmt.Sprintf("node %s: no relation leads to %s", l.name,
				o.Reference))
		}
	}
	r.lanes = slices.DeleteFunc(r.lanes, func(l *lane) bool { return l.view == nil })
	slices.SortFunc(r.lanes, func(a, b *lane) int { return strings.Compare(a.name, b.name) })
	for i, l := range r.lanes {
		l.node = uint32(i)
		r.Nodes = append(r.Nodes, l.name)
		for _, f := range l.feeds {
			r.Channels[f.channel].Node = i
		}
	}
	if len(r.lanes) == 0 {
		return nil, fmt.Errorf("replay %q: it has no logs of events on related nodes: %w",
			dir.Path, ErrNothing)
	}
	r.links.resolve()
	for _, m := range o.Messages {
		r.deliver(times.Node(m.Sent.Node, m.Sent.Epoch), m.Sent.Reading,
			times.Node(m.Received.Node, m.Received.Epoch), m.Received.Reading)
	}
	return r, r.connect()
}

// otherEvents are the points whose ids do not belong to tuples: the points of package returntrip,
// and the pauses of a JVM.
var otherEvents = map[string]bool{
	"jvm-pauses": true, "ret-sent": true, "ret-arrived": true, "ret-acknowledged": true,
	"ret-echoed": true,
}

// addSegment adds a segment to the feeds of its node.
func (r *Run) addSegment(times *runs.Times, node string, s logstore.Segment) {
	f, err := logstore.OpenFile(s.Path)
	if err != nil {
		r.Unusable = append(r.Unusable, err.Error())
		return
	}
	defer f.Close()
	h := f.Header()
	name := times.Node(node, h.Epoch)
	if name == "" {
		if f.Blocks() > 0 {
			r.Unusable = append(r.Unusable, fmt.Sprintf("%s/%s: the run does not have its epoch %q",
				node, s.Channel, h.Epoch))
		}
		return
	}
	places, err := f.Continues()
	if err != nil {
		r.Unusable = append(r.Unusable, fmt.Sprintf("%s/%s: %v", node, s.Channel, err))
		return
	}
	at := slices.IndexFunc(r.lanes, func(l *lane) bool { return l.name == name })
	if at < 0 {
		l := &lane{name: name, host: node}
		l.view = r.view(times, name, h.Quantum_cycles+h.CoreSlack_cycles)
		at = len(r.lanes)
		r.lanes = append(r.lanes, l)
	}
	l := r.lanes[at]
	for _, p := range places {
		if p.Kind == logstore.Links {
			if err := r.readLinks(f, p.Shard, s.Channel.Actor); err != nil {
				r.Unusable = append(r.Unusable, fmt.Sprintf("%s/%s: %v", node, s.Channel, err))
			}
		}
		if p.Kind != logstore.Events {
			continue
		}
		i := slices.IndexFunc(l.feeds, func(f *shardFeed) bool {
			return f.ring == s.Incarnation && f.name == s.Channel && f.shard == p.Shard
		})
		if i < 0 {
			i = len(l.feeds)
			l.feeds = append(l.feeds, &shardFeed{
				ring: s.Incarnation, name: s.Channel, shard: p.Shard,
				channel: r.channelOf(name, s, h), logs: &r.logs,
			})
		}
		l.feeds[i].segments = append(l.feeds[i].segments, s)
	}
}

// channelOf is the index of a channel.
func (r *Run) channelOf(node string, s logstore.Segment, h logstore.Header) uint32 {
	c := Channel{
		Name: s.Channel.String(), Actor: s.Channel.Actor, Point: s.Channel.Point,
		Handler: h.Settings.String(), Node: slices.IndexFunc(r.lanes, func(l *lane) bool {
			return l.name == node
		}),
	}
	point := c.Actor + "/" + c.Point
	at := slices.Index(r.points, point)
	if at < 0 {
		at = len(r.points)
		r.points = append(r.points, point)
	}
	c.point = uint16(at)
	for i, known := range r.Channels {
		if known.Name == c.Name && r.lanes[known.Node].name == node {
			return uint32(i)
		}
	}
	r.Channels = append(r.Channels, c)
	return uint32(len(r.Channels) - 1)
}

// connect finds the points of the edges.
func (r *Run) connect() error {
	var err error
	if r.senders, err = r.pairs(r.options.Edges); err == nil {
		r.makers, err = r.pairs(r.options.Made)
	}
	return err
}

// pairs returns, for each point, the points that come before it in one of the given pairs of
// points.
func (r *Run) pairs(edges [][2]string) (before [][]uint16, err error) {
	before = make([][]uint16, len(r.points))
	for _, e := range edges {
		from, to := slices.Index(r.points, e[0]), slices.Index(r.points, e[1])
		if from < 0 || to < 0 {
			return nil, fmt.Errorf("replay: edge %q to %q: the run's points are %s: %w", e[0], e[1],
				strings.Join(r.points, ", "), ErrEdge)
		}
		if !slices.Contains(before[to], uint16(from)) {
			before[to] = append(before[to], uint16(from))
		}
	}
	return before, nil
}

// view returns the view that translates readings of a node into cycles of the reference. It returns
// nil if the node and the reference are not related.
func (r *Run) view(times *runs.Times, node string, slack_cycles uint64) translator {
	v, err := times.Closure.View(node, r.options.Reference)
	switch {
	case err == nil:
		return v
	case node == r.options.Reference:
		return ownTranslator{slack_cycles}
	}
	return nil
}

type translator interface {
	Translate(y uint64) (tscratio.Interval, tscratio.Verdict, error)
}

// ownTranslator is the translator of the reference node if no relation names that node.
type ownTranslator struct{ slack_cycles uint64 }

func (i ownTranslator) Translate(y uint64) (tscratio.Interval, tscratio.Verdict, error) {
	return tscratio.Interval{Lo: y - min(y, i.slack_cycles), Hi: y + i.slack_cycles},
		tscratio.Consistent, nil
}

// Close closes the logs.
func (r *Run) Close() (err error) {
	for _, l := range r.lanes {
		for _, f := range l.feeds {
			err = cmp.Or(err, f.close())
		}
	}
	return err
}
