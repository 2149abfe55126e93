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
	Parquet  Kind = 1 << iota // the tables events, durations, origins, edges, about and messages
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
// wrote. Run replaces the functions o.Events and o.Durations of the caller. If o.Slowest is above
// 0, a trace shows this number of the slowest tuples.
func Run(ctx context.Context, dir *runs.Directory, o analysis.Options, kinds Kind) (files []File,
	answer *analysis.Answer, err error) {
	x := &exporter{dir: dir}
	defer func() { err = errors.Join(err, x.removeUnfinished()) }()
	if err := x.create(kinds, o.Slowest); err != nil {
		return nil, nil, err
	}
	o.Slowest = -1
	x.setListeners(&o)
	if answer, err = analysis.Run(ctx, dir, o); err != nil {
		return nil, nil, err
	}
	if err := x.exportMessages(kinds, &o, answer); err != nil {
		return nil, nil, fmt.Errorf("export run %q: %w", dir.Run.Name, err)
	}
	if err := x.completeFiles(answer); err != nil {
		return nil, nil, fmt.Errorf("export run %q: %w", dir.Run.Name, err)
	}
	return x.files, answer, nil
}

// exporter writes the files of one export.
type exporter struct {
	dir    *runs.Directory
	files  []File
	begun  []unfinishedFile // files that were begun and are not finished
	sinks  []sink
	tables []*tables // those sinks that are tables
	trace  *trace    // the sink that writes the trace; nil: none
}

// create begins the files of the chosen kinds.
func (x *exporter) create(kinds Kind, slowest int) error {
	for _, k := range []struct {
		kind  Kind
		begin func() error
	}{
		{Parquet, x.createParquet},
		{CSV, x.createCSV},
		{Perfetto, func() error { return x.createTrace(slowest) }},
		{SQL, x.createQueries},
	} {
		if kinds&k.kind != 0 {
			if err := k.begin(); err != nil {
				return err
			}
		}
	}
	return nil
}

// beginFile begins a file.
func (x *exporter) beginFile(name string) (io.Writer, error) {
	f, err := x.dir.CreateExport(name)
	if err != nil {
		return nil, err
	}
	x.begun, x.files = append(x.begun, f), append(x.files, File{Name: name})
	return f, nil
}

func (x *exporter) fileOfEach(names ...string) (all []io.Writer, err error) {
	for _, name := range names {
		w, err := x.beginFile(name)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

func (x *exporter) table(w tableWriter) {
	t := newTables(w)
	x.tables, x.sinks = append(x.tables, t), append(x.sinks, t)
}

func (x *exporter) createParquet() error {
	parts := map[string]*runs.ExportTable{}
	for _, name := range []string{"events", "durations"} {
		t, err := x.dir.CreateExportTable(name)
		if err != nil {
			return err
		}
		parts[name] = t
		x.begun, x.files = append(x.begun, t), append(x.files, File{Name: name})
	}
	small, err := x.fileOfEach("edges.parquet", "about.parquet", "origins.parquet")
	if err == nil {
		x.table(newParquet(parts, small))
	}
	return err
}

func (x *exporter) createCSV() error {
	all, err := x.fileOfEach("events.csv", "durations.csv", "edges.csv", "about.csv", "origins.csv")
	if err == nil {
		x.table(newCSV(all))
	}
	return err
}

func (x *exporter) createTrace(slowest int) error {
	w, err := x.beginFile(traceFile)
	if err == nil {
		x.trace = newTrace(w, slowest)
		x.sinks = append(x.sinks, x.trace)
	}
	return err
}

// createQueries writes the queries, which do not depend on the run.
func (x *exporter) createQueries() error {
	all, err := x.fileOfEach(queryFiles...)
	for i, w := range all {
		_, writeErr := io.WriteString(w, queryText(queryFiles[i]))
		err = errors.Join(err, writeErr)
	}
	return err
}

// setListeners sets the functions that an analysis calls, so that its rows reach the sinks.
func (x *exporter) setListeners(o *analysis.Options) {
	o.Begin = func(b analysis.Basis) error {
		if x.trace != nil {
			x.trace.lacked = b.Lacks
		}
		for _, t := range x.tables {
			if err := t.begin(x.dir.Run.Name, b); err != nil {
				return err
			}
		}
		return nil
	}
	o.Events = func(e analysis.EventRow) error {
		for _, s := range x.sinks {
			if err := s.event(&e); err != nil {
				return err
			}
		}
		return nil
	}
	o.Durations = func(d analysis.DurationRow) error {
		for _, s := range x.sinks {
			if err := s.duration(&d); err != nil {
				return err
			}
		}
		return nil
	}
	o.Links = nil
	if x.trace != nil && x.trace.shown.slowest {
		o.Links = x.trace.tuples.link
	}
}

// completeFiles completes the files, and gives them their names.
func (x *exporter) completeFiles(answer *analysis.Answer) error {
	for _, s := range x.sinks {
		if err := s.finish(answer); err != nil {
			return err
		}
	}
	if x.trace != nil {
		i := slices.IndexFunc(x.files, func(f File) bool { return f.Name == traceFile })
		x.files[i].Note = x.trace.shows
	}
	return x.nameFiles()
}

// nameFiles gives the files their names.
func (x *exporter) nameFiles() error {
	for len(x.begun) > 0 {
		f := x.begun[0]
		x.begun = x.begun[1:]
		if err := f.Finish(); err != nil {
			return err
		}
	}
	return nil
}

// removeUnfinished removes the files that are not finished.
func (x *exporter) removeUnfinished() (err error) {
	for _, t := range x.tables {
		err = errors.Join(err, t.writer.close())
	}
	for _, f := range x.begun {
		err = errors.Join(err, f.Abandon())
	}
	return err
}

// sink takes rows. One goroutine at a time may use it.
type sink interface {
	event(*analysis.EventRow) error
	duration(*analysis.DurationRow) error
	finish(*analysis.Answer) error
}

// unfinishedFile is a file or a directory that gets its final name only when it is finished.
type unfinishedFile interface {
	Finish() error
	Abandon() error
}

// queryFiles read the Parquet tables. Each of the first three opens the tables in one SQL engine.
var queryFiles = []string{"duckdb.sql", "spark.sql", "clickhouse.sql", "join.sql",
	"percentiles.sql"}

// queryText returns the text of a file of queryFiles.
func queryText(name string) string {
	text, err := queries.ReadFile(name)
	if err != nil {
		panic(err) // the file is a part of this program
	}
	return string(text)
}
