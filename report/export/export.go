package export

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// Kind says what is exported. Kinds are combined with |.
type Kind uint8

const (
	Parquet  Kind = 1 << iota // the tables events, durations, origins, edges and about
	CSV                       // the same tables as text
	SQL                       // queries, and statements that open the Parquet tables in an engine
	Perfetto                  // trace.perfetto-trace
)

const traceFile = "trace.perfetto-trace"

//go:embed *.sql
var queries embed.FS

// File is a file of an export.
type File struct {
	Name string
	Note string // which part of the run it has; empty: all
}

// Run analyses a run and writes the chosen kinds of files into the run's exports directory. The
// files replace older ones. If Run fails, the older files stay. Run returns the files that it
// wrote. It replaces o.Events and o.Durations. If o.Slowest is above 0, a trace shows that many of
// the slowest tuples.
func Run(ctx context.Context, dir *runs.Directory, o analysis.Options, kinds Kind) (files []File,
	answer *analysis.Answer, err error) {
	slowest := o.Slowest
	o.Slowest = -1
	var sinks []sink
	var begun []unfinished
	var all []*tables
	defer func() {
		for _, t := range all {
			err = errors.Join(err, t.writer.close())
		}
		for _, f := range begun { // files that were begun and not finished
			err = errors.Join(err, f.Abandon())
		}
	}()
	create := func(name string) (io.Writer, error) {
		f, err := dir.CreateExport(name)
		if err != nil {
			return nil, err
		}
		begun = append(begun, f)
		files = append(files, File{Name: name})
		return f, nil
	}
	var parts map[string]*runs.ExportTable
	if kinds&Parquet != 0 {
		parts = map[string]*runs.ExportTable{}
		for _, name := range []string{"events", "durations"} {
			if parts[name], err = dir.CreateExportTable(name); err != nil {
				return nil, nil, err
			}
			begun, files = append(begun, parts[name]), append(files, File{Name: name})
		}
	}
	table := func(w tableWriter) (sink, error) {
		t := newTables(w)
		all = append(all, t)
		return t, nil
	}
	for _, k := range []struct {
		kind  Kind
		names []string
		make  func([]io.Writer) (sink, error)
	}{
		{Parquet, []string{"edges.parquet", "about.parquet", "origins.parquet"},
			func(w []io.Writer) (sink, error) { return table(newParquet(parts, w)) }},
		{CSV, []string{"events.csv", "durations.csv", "edges.csv", "about.csv", "origins.csv"},
			func(w []io.Writer) (sink, error) { return table(newCSV(w)) }},
		{Perfetto, []string{traceFile},
			func(w []io.Writer) (sink, error) { return newTrace(w[0], slowest), nil }},
		{SQL, queryFiles, newQueries},
	} {
		if kinds&k.kind == 0 {
			continue
		}
		var writers []io.Writer
		for _, name := range k.names {
			w, err := create(name)
			if err != nil {
				return nil, nil, err
			}
			writers = append(writers, w)
		}
		s, err := k.make(writers)
		if err != nil {
			return nil, nil, err
		}
		sinks = append(sinks, s)
	}
	o.Begin = func(b analysis.Basis) error {
		for _, s := range sinks {
			if t, ok := s.(*trace); ok {
				t.lacked = b.Lacks
			}
		}
		for _, t := range all {
			if err := t.begin(dir.Run.Name, b); err != nil {
				return err
			}
		}
		return nil
	}
	o.Events = func(e analysis.EventRow) error {
		for _, s := range sinks {
			if err := s.event(&e); err != nil {
				return err
			}
		}
		return nil
	}
	o.Durations = func(d analysis.DurationRow) error {
		for _, s := range sinks {
			if err := s.duration(&d); err != nil {
				return err
			}
		}
		return nil
	}
	o.Links = func(parent, child uint64) {
		for _, s := range sinks {
			if t, ok := s.(*trace); ok && t.shown.slowest {
				t.tuples.link(parent, child)
			}
		}
	}
	if answer, err = analysis.Run(ctx, dir, o); err != nil {
		return nil, nil, err
	}
	for _, s := range sinks {
		if err := s.finish(answer); err != nil {
			return nil, nil, fmt.Errorf("export run %q: %w", dir.Run.Name, err)
		}
		if t, ok := s.(*trace); ok {
			i := slices.IndexFunc(files, func(f File) bool { return f.Name == traceFile })
			files[i].Note = t.shows
		}
	}
	for len(begun) > 0 {
		f := begun[0]
		begun = begun[1:]
		if err := f.Finish(); err != nil {
			return nil, nil, fmt.Errorf("export run %q: %w", dir.Run.Name, err)
		}
	}
	return files, answer, nil
}

// sink takes rows. One goroutine at a time may use it.
type sink interface {
	event(*analysis.EventRow) error
	duration(*analysis.DurationRow) error
	finish(*analysis.Answer) error
}

// unfinished is a file or a directory that gets its final name only when it is finished.
type unfinished interface {
	Finish() error
	Abandon() error
}

// queryFiles read the Parquet tables. The first three open them in an engine.
var queryFiles = []string{"duckdb.sql", "spark.sql", "clickhouse.sql", "join.sql",
	"percentiles.sql"}

// query returns the text of a file of queryFiles.
func query(name string) string {
	text, err := queries.ReadFile(name)
	if err != nil {
		panic(err) // the file is a part of this program
	}
	return string(text)
}

func newQueries(w []io.Writer) (sink, error) {
	var err error
	for i, name := range queryFiles {
		_, writeErr := io.WriteString(w[i], query(name))
		err = errors.Join(err, writeErr)
	}
	return textSink{}, err
}

// textSink is for files that do not depend on the run.
type textSink struct{}

func (textSink) event(*analysis.EventRow) error       { return nil }
func (textSink) duration(*analysis.DurationRow) error { return nil }
func (textSink) finish(*analysis.Answer) error        { return nil }
