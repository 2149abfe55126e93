package export

import (
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// eventRow is a row of the table events. A field is nil if its value is not known.
type eventRow struct {
	TupleID   uint64 `parquet:"tuple_id"`
	Way       int64  `parquet:"way"`
	Path      int32  `parquet:"path"`
	Lo_cycles *int64 `parquet:"lo_cycles,optional"`
	Hi_cycles *int64 `parquet:"hi_cycles,optional"`
	Lo_ns     *int64 `parquet:"lo_ns,optional"`
	Hi_ns     *int64 `parquet:"hi_ns,optional"`
	Node      string `parquet:"node,dict"`
	Channel   string `parquet:"channel,dict"`
	Point     string `parquet:"point,dict"`
	Verdict   string `parquet:"verdict,dict"`
}

// durationRow is a row of the table durations.
type durationRow struct {
	TupleID   uint64 `parquet:"tuple_id"`
	Way       int64  `parquet:"way"`
	FromWay   int64  `parquet:"from_way"`
	From      string `parquet:"from_point,dict"`
	To        string `parquet:"to_point,dict"`
	FromNode  string `parquet:"from_node,dict"`
	ToNode    string `parquet:"to_node,dict"`
	Kind      string `parquet:"kind,dict"`
	Critical  string `parquet:"critical,dict"`
	Lo_cycles int64  `parquet:"lo_cycles"`
	Hi_cycles int64  `parquet:"hi_cycles"`
	Lo_ns     *int64 `parquet:"lo_ns,optional"`
	Hi_ns     *int64 `parquet:"hi_ns,optional"`
	Scenario  string `parquet:"scenario,dict"`
	Verdict   string `parquet:"verdict,dict"`
}

// edgeRow is a row of the table edges: a span of a path.
type edgeRow struct {
	Path int32  `parquet:"path"`
	From string `parquet:"from_point"`
	To   string `parquet:"to_point"`
	Kind string `parquet:"kind"`
}

// originRow is a row of the table origins: where a tuple that was made of others began and ended.
type originRow struct {
	Way     int64  `parquet:"way"`
	FromWay int64  `parquet:"from_way"`
	From    string `parquet:"from_point,dict"`
	To      string `parquet:"to_point,dict"`
	Kind    string `parquet:"kind,dict"`
	Earlier int64  `parquet:"earlier_cycles"`
	Later   int64  `parquet:"later_cycles"`
}

// newOrigin makes the row of a duration from an origin. The difference of the two events' intervals
// may be narrower than the duration: see analysis.DurationRow.Ends. Earlier and Later say by how
// much the interval of the event at From has to grow, so that the difference contains the duration.
func newOrigin(d *analysis.DurationRow) originRow {
	row := originRow{Way: int64(d.Made), FromWay: int64(d.Origin), From: d.From, To: d.To,
		Kind: d.Kind}
	if from, to := d.Ends[0], d.Ends[1]; d.Ends != [2]tscratio.Interval{} {
		row.Later = max(int64(to.Lo-from.Hi)-d.Lo, 0)
		row.Earlier = max(d.Hi-int64(to.Hi-from.Lo), 0)
	}
	return row
}

// aboutRow is a row of the table "about": a key and its value. Each Parquet file also has these
// keys and values in its metadata.
type aboutRow struct {
	Key   string `parquet:"key"`
	Value string `parquet:"value"`
}

// tableWriter writes the rows of events, durations, origins, edges and about in one format.
type tableWriter interface {
	begin(about []aboutRow) error
	event(*eventRow) error
	duration(*durationRow) error
	origin(*originRow) error
	// cut is called where the rows of a tuple end.
	cut() error
	finish(edges []edgeRow) error
	close() error // closes what is still open after an error
}

// tables makes the rows that a tableWriter writes. A path is a set of spans that tuples have in
// common. A span belongs to a path only if the span's duration was computed. So a join of edges and
// events finds exactly the rows of durations.
type tables struct {
	writer tableWriter
	basis  analysis.Basis
	ns     analysis.Nanoseconds

	way   int64            // the number of the tuple whose rows are coming
	spans []edgeRow        // the spans of its path that have come so far
	path  int32            // the number of its path, or none
	key   []byte           // a buffer for a key of paths
	paths map[string]int32 // by from, to and kind of each span, each ending with a zero byte
	edges []edgeRow
}

const none = -1

func newTables(w tableWriter) *tables {
	return &tables{writer: w, path: none, paths: map[string]int32{}}
}

func (t *tables) begin(run string, b analysis.Basis) error {
	t.basis, t.ns = b, b.Reference.Nanoseconds()
	return t.writer.begin(describeNumbers(run, b))
}

// beginTuple prepares for the rows of the next tuple, if the row at hand belongs to a new one. The
// parameter is the tuple's number, or 0 for any tuple that was made of others.
func (t *tables) beginTuple(way int64) error {
	if way == t.way && way != 0 {
		return nil
	}
	t.way, t.spans, t.path = way, t.spans[:0], none
	return t.writer.cut()
}

// pathNumber returns the number of the tuple's path. It may be called when all durations of the
// tuple have come, because they decide the path. They come before the tuple's events.
func (t *tables) pathNumber() int32 {
	if t.path != none {
		return t.path
	}
	t.key = t.key[:0]
	for _, s := range t.spans {
		for _, word := range []string{s.From, s.To, s.Kind} {
			t.key = append(append(t.key, word...), 0)
		}
	}
	path, known := t.paths[string(t.key)]
	if !known {
		path = int32(len(t.paths))
		t.paths[string(t.key)] = path
		for _, s := range t.spans {
			s.Path = path
			t.edges = append(t.edges, s)
		}
	}
	t.path = path
	return path
}

// toNanoseconds converts an interval from cycles to ns. It returns nil if the interval cannot be
// converted.
func (t *tables) toNanoseconds(lo_cycles, hi_cycles int64) (lo_ns, hi_ns *int64) {
	var ns struct{ lo, hi int64 }
	var ok bool
	ns.lo, ns.hi, ok = t.ns.Of(analysis.Interval{Lo_cycles: lo_cycles, Hi_cycles: hi_cycles})
	if !ok {
		return nil, nil
	}
	return &ns.lo, &ns.hi
}

func (t *tables) event(e *analysis.EventRow) error {
	if err := t.beginTuple(int64(e.Tuple)); err != nil {
		return err
	}
	row := eventRow{TupleID: e.ID, Way: t.way, Path: t.pathNumber(), Node: e.Node,
		Channel: e.Channel,
		Point:   e.Point, Verdict: "unknown"}
	if !e.Unplaced {
		at := struct{ lo, hi int64 }{
			int64(e.At.Lo - t.basis.Zero_cycles), int64(e.At.Hi - t.basis.Zero_cycles),
		}
		row.Lo_cycles, row.Hi_cycles, row.Verdict = &at.lo, &at.hi, e.Verdict.String()
		row.Lo_ns, row.Hi_ns = t.toNanoseconds(at.lo, at.hi)
	}
	return t.writer.event(&row)
}

func (t *tables) duration(d *analysis.DurationRow) error {
	if err := t.beginTuple(int64(d.Tuple)); err != nil {
		return err
	}
	row := durationRow{TupleID: d.ID, Way: t.way, FromWay: t.way, From: d.From, To: d.To,
		FromNode: d.FromNode, ToNode: d.ToNode, Kind: d.Kind,
		Critical: d.Critical.String(), Lo_cycles: d.Lo, Hi_cycles: d.Hi,
		Scenario: d.Scenario.String(), Verdict: d.Verdict.String()}
	if d.Tuple != 0 {
		t.spans = append(t.spans, edgeRow{From: d.From, To: d.To, Kind: d.Kind})
	} else {
		origin := newOrigin(d)
		row.Way, row.FromWay = origin.Way, origin.FromWay
		if err := t.writer.origin(&origin); err != nil {
			return err
		}
	}
	row.Lo_ns, row.Hi_ns = t.toNanoseconds(d.Lo, d.Hi)
	return t.writer.duration(&row)
}

func (t *tables) finish(*analysis.Answer) error {
	return t.writer.finish(t.edges)
}

// version is the version of an export's tables. It changes only if a column changes its meaning.
const version = "1"

// describeNumbers says what the tables' numbers mean.
func describeNumbers(run string, b analysis.Basis) []aboutRow {
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	rows := []aboutRow{
		{"version", version},
		{"run", run},
		{"reference_node", b.Reference.Node},
		{"zero_cycles", strconv.FormatUint(b.Zero_cycles, 10)},
		{"frequency_lo_hz", number(b.Reference.FrequencyLo_hz)},
		{"frequency_hi_hz", number(b.Reference.FrequencyHi_hz)},
		{"frequency_source", b.Reference.Source},
		{"wander_ppm", number(b.Declared_ppm)},
		{"wander_used_ppm", number(b.Used_ppm)},
		{"wander_window_s", number(b.Window_s)},
		{"relations", strconv.Itoa(b.Relations)},
		{"suspect_relations", strconv.Itoa(b.Suspect)},
		{"third_nodes", b.ThirdNodes.String()},
		{"cycles", "of the counter of reference_node; events count from zero_cycles"},
		{"nanoseconds", b.Reference.SecondsMean()},
		{"intervals", "lo and hi contain the truth if rates of two counters wander by at most " +
			"wander_ppm within wander_window_s, and the verdict is consistent"},
		{"kept", string(b.Kept)},
	}
	if b.Lacks != "" {
		rows = append(rows, aboutRow{"kept_why", b.Lacks})
	}
	return rows
}
