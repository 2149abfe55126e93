package export

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/paths"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// pathRow is a row of the table paths: a call of a path. A field is nil if its value is not known.
type pathRow struct {
	Path            int64   `parquet:"path"`
	Call            int32   `parquet:"call"`
	Parent          *int32  `parquet:"parent,optional"`
	Pattern         int32   `parquet:"pattern"`
	PathProbability float64 `parquet:"path_probability"`
	Probability     float64 `parquet:"probability"`
	RunnerUp        float64 `parquet:"runner_up_probability"`

	FromProgram string `parquet:"from_program,dict"`
	FromNode    string `parquet:"from_node,dict"`
	FromProcess uint32 `parquet:"from_process"`
	FromThread  uint32 `parquet:"from_thread"`
	FromSocket  uint64 `parquet:"from_socket"`
	ToProgram   string `parquet:"to_program,dict"`
	ToNode      string `parquet:"to_node,dict"`
	ToProcess   uint32 `parquet:"to_process"`
	ToThread    uint32 `parquet:"to_thread"`
	ToSocket    uint64 `parquet:"to_socket"`

	BeganLo_cycles    *int64 `parquet:"began_lo_cycles,optional"`
	BeganHi_cycles    *int64 `parquet:"began_hi_cycles,optional"`
	SentLo_cycles     *int64 `parquet:"sent_lo_cycles,optional"`
	SentHi_cycles     *int64 `parquet:"sent_hi_cycles,optional"`
	ReceivedLo_cycles *int64 `parquet:"received_lo_cycles,optional"`
	ReceivedHi_cycles *int64 `parquet:"received_hi_cycles,optional"`
	RepliedLo_cycles  *int64 `parquet:"replied_lo_cycles,optional"`
	RepliedHi_cycles  *int64 `parquet:"replied_hi_cycles,optional"`
	GotLo_cycles      *int64 `parquet:"got_lo_cycles,optional"`
	GotHi_cycles      *int64 `parquet:"got_hi_cycles,optional"`
	OwnLo_cycles      *int64 `parquet:"own_lo_cycles,optional"`
	OwnHi_cycles      *int64 `parquet:"own_hi_cycles,optional"`
	OwnLo_ns          *int64 `parquet:"own_lo_ns,optional"`
	OwnHi_ns          *int64 `parquet:"own_hi_ns,optional"`
	NetworkLo_cycles  *int64 `parquet:"network_lo_cycles,optional"`
	NetworkHi_cycles  *int64 `parquet:"network_hi_cycles,optional"`
	NetworkLo_ns      *int64 `parquet:"network_lo_ns,optional"`
	NetworkHi_ns      *int64 `parquet:"network_hi_ns,optional"`

	Verdict string `parquet:"verdict,dict"`
}

// pathSink takes the paths of requests, in the order in which they began.
type pathSink interface {
	path(number int64, p *paths.Path) error
	end(a *paths.Answer) error
}

// Paths writes the paths of requests that the options choose into the run's exports directory. If
// o.Slowest is above 0, it writes only that number of the slowest paths. Paths sets o.Each itself,
// so a value of the caller has no effect. The files replace older ones. If Paths fails, the older
// files stay. If no messages were captured in the run, the answer is nil, and no file is written.
func Paths(dir *runs.Directory, basis analysis.Basis, o paths.Options, kinds Kind) (files []File,
	answer *paths.Answer, err error) {
	x := &exporter{dir: dir}
	defer func() { err = errors.Join(err, x.removeUnfinished()) }()
	var sinks []pathSink
	for _, k := range []struct {
		kind Kind
		name string
		sink func(io.Writer) (pathSink, error)
	}{
		{Parquet, "paths.parquet", func(w io.Writer) (pathSink, error) {
			return &pathTable{basis, newTable[pathRow](w, "paths",
				describeNumbers(dir.Run.Name, basis))}, nil
		}},
		{CSV, "paths.csv", func(w io.Writer) (pathSink, error) {
			t := &pathText{basis, csv.NewWriter(w)}
			return t, t.w.Write(columnsOf(pathRow{}))
		}},
		{Perfetto, "paths.perfetto-trace", func(w io.Writer) (pathSink, error) {
			return &pathTrace{trace: newTrace(w, 0), basis: basis, run: dir.Run.Name}, nil
		}},
	} {
		if kinds&k.kind == 0 {
			continue
		}
		w, err := x.beginFile(k.name)
		if err != nil {
			return nil, nil, err
		}
		s, err := k.sink(w)
		if err != nil {
			return nil, nil, err
		}
		sinks = append(sinks, s)
	}
	if answer, err = eachPath(dir, o, sinks); err == nil && answer != nil {
		for i := range x.files {
			x.files[i].Note = fmt.Sprintf("%d of %d paths", shownPaths(answer, o.Slowest),
				answer.Requests)
		}
		err = x.nameFiles()
	}
	if err != nil {
		return nil, nil, fmt.Errorf("export paths of run %q: %w", dir.Run.Name, err)
	}
	return x.files, answer, nil
}

// shownPaths is how many paths are exported.
func shownPaths(a *paths.Answer, slowest int) int {
	if slowest > 0 {
		return len(a.Slowest)
	}
	return a.Chosen
}

// eachPath passes paths on to sinks.
func eachPath(dir *runs.Directory, o paths.Options, sinks []pathSink) (*paths.Answer, error) {
	number := int64(0)
	pass := func(p *paths.Path) error {
		number++
		for _, s := range sinks {
			if err := s.path(number, p); err != nil {
				return err
			}
		}
		return nil
	}
	if o.Each = pass; o.Slowest > 0 {
		o.Each = nil
	}
	answer, err := paths.Of(dir, o)
	if err != nil || answer == nil {
		return nil, err
	}
	for i := range answer.Slowest {
		if err := pass(&answer.Slowest[i]); err != nil {
			return nil, err
		}
	}
	for _, s := range sinks {
		if err := s.end(answer); err != nil {
			return nil, err
		}
	}
	return answer, nil
}

// pathRows makes the rows of a path.
func pathRows(number int64, p *paths.Path, basis *analysis.Basis) (rows []pathRow) {
	ns := basis.Reference.Nanoseconds()
	for i := range p.Calls {
		c := &p.Calls[i]
		r := pathRow{Path: number, Call: int32(i), Pattern: int32(p.Pattern + 1),
			PathProbability: p.Probability, Probability: c.Probability, RunnerUp: c.RunnerUp,
			FromProgram: c.From.Program, FromNode: c.From.Node, FromProcess: c.From.Process,
			FromThread: c.From.Thread, FromSocket: c.From.Socket,
			ToProgram: c.To.Program, ToNode: c.To.Node, ToProcess: c.To.Process,
			ToThread: c.To.Thread, ToSocket: c.To.Socket, Verdict: verdictOf(c)}
		if c.Parent >= 0 {
			parent := int32(c.Parent)
			r.Parent = &parent
		}
		if p.Began != nil {
			lo, hi := int64(p.Began.Lo-basis.Zero_cycles), int64(p.Began.Hi-basis.Zero_cycles)
			r.BeganLo_cycles, r.BeganHi_cycles = &lo, &hi
		}
		for _, v := range []struct {
			from   *paths.Interval
			lo, hi **int64
		}{
			{c.Sent, &r.SentLo_cycles, &r.SentHi_cycles},
			{c.Received, &r.ReceivedLo_cycles, &r.ReceivedHi_cycles},
			{c.Replied, &r.RepliedLo_cycles, &r.RepliedHi_cycles},
			{c.Got, &r.GotLo_cycles, &r.GotHi_cycles},
			{c.Own, &r.OwnLo_cycles, &r.OwnHi_cycles},
			{c.Network, &r.NetworkLo_cycles, &r.NetworkHi_cycles},
		} {
			if v.from != nil {
				*v.lo, *v.hi = &v.from.Lo_cycles, &v.from.Hi_cycles
			}
		}
		r.OwnLo_ns, r.OwnHi_ns = nsOfInterval(ns, c.Own)
		r.NetworkLo_ns, r.NetworkHi_ns = nsOfInterval(ns, c.Network)
		rows = append(rows, r)
	}
	return rows
}

// verdictOf is the verdict of the times of a call.
func verdictOf(c *paths.PathCall) string {
	if c.Suspect {
		return tscratio.Suspect.String()
	}
	return tscratio.Consistent.String()
}

func nsOfInterval(ns analysis.Nanoseconds, i *paths.Interval) (lo_ns, hi_ns *int64) {
	if i == nil {
		return nil, nil
	}
	lo, hi, ok := ns.Of(*i)
	if !ok {
		return nil, nil
	}
	return &lo, &hi
}

// pathTable writes the table paths as Parquet.
type pathTable struct {
	basis analysis.Basis
	table *table[pathRow]
}

func (t *pathTable) path(number int64, p *paths.Path) error {
	rows := pathRows(number, p, &t.basis)
	for i := range rows {
		if err := t.table.add(&rows[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t *pathTable) end(*paths.Answer) error { return t.table.finish() }

// pathText writes the table paths as text.
type pathText struct {
	basis analysis.Basis
	w     *csv.Writer
}

func (t *pathText) path(number int64, p *paths.Path) (err error) {
	for _, r := range pathRows(number, p, &t.basis) {
		err = errors.Join(err, t.w.Write(valuesOf(r)))
	}
	return err
}

func (t *pathText) end(*paths.Answer) error {
	t.w.Flush()
	return t.w.Error()
}

// columnsOf returns the names of a row's columns.
func columnsOf(row any) (names []string) {
	for _, c := range parquet.SchemaOf(row).Fields() {
		names = append(names, c.Name())
	}
	return names
}

// valuesOf returns the values of a row as text. An unknown value is empty.
func valuesOf(row any) (texts []string) {
	fields := reflect.ValueOf(row)
	for i := range fields.NumField() {
		v := fields.Field(i)
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				texts = append(texts, "")
				continue
			}
			v = v.Elem()
		}
		if v.CanFloat() {
			texts = append(texts, strconv.FormatFloat(v.Float(), 'g', -1, 64))
		} else {
			texts = append(texts, fmt.Sprint(v.Interface()))
		}
	}
	return texts
}
