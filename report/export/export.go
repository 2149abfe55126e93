package export

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// Kind says what is exported. Kinds are combined with |.
type Kind uint8

const (
	Parquet  Kind = 1 << iota // events.parquet and durations.parquet
	CSV                       // events.csv and durations.csv
	SQL                       // join.sql and percentiles.sql, which read the Parquet files
	Perfetto                  // trace.perfetto-trace
)

//go:embed join.sql
var joinSQL string

//go:embed percentiles.sql
var percentilesSQL string

// Run analyses a run and writes the chosen kinds of files into its exports directory. They replace
// older files; if Run fails, the older files stay. It returns the names of the files. It sets
// o.Events and o.Durations.
func Run(ctx context.Context, dir *runs.Directory, o analysis.Options, kinds Kind) (files []string,
	answer *analysis.Answer, err error) {
	var sinks []sink
	var begun []*runs.Export
	defer func() {
		for _, f := range begun { // and not finished
			err = errors.Join(err, f.Abandon())
		}
	}()
	create := func(name string) (io.Writer, error) {
		f, err := dir.CreateExport(name)
		if err != nil {
			return nil, err
		}
		begun = append(begun, f)
		files = append(files, name)
		return f, nil
	}
	for _, k := range []struct {
		kind  Kind
		names []string
		make  func([]io.Writer) (sink, error)
	}{
		{Parquet, []string{"events.parquet", "durations.parquet"}, newParquetSink},
		{CSV, []string{"events.csv", "durations.csv"}, newCSVSink},
		{Perfetto, []string{"trace.perfetto-trace"},
			func(w []io.Writer) (sink, error) { return newTrace(w[0]), nil }},
		{SQL, []string{"join.sql"}, newText(joinSQL)},
		{SQL, []string{"percentiles.sql"}, newText(percentilesSQL)},
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
	if answer, err = analysis.Run(ctx, dir, o); err != nil {
		return nil, nil, err
	}
	for _, s := range sinks {
		if err := s.finish(answer); err != nil {
			return nil, nil, fmt.Errorf("export run %q: %w", dir.Run.Name, err)
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

type csvSink struct{ events, durations *csv.Writer }

func newCSVSink(w []io.Writer) (sink, error) {
	s := &csvSink{csv.NewWriter(w[0]), csv.NewWriter(w[1])}
	err := s.events.Write([]string{"tuple_id", "way", "lo_cycles", "hi_cycles", "node", "channel",
		"point", "verdict"})
	err2 := s.durations.Write([]string{"tuple_id", "way", "from_point", "to_point", "from_node",
		"to_node", "kind", "lo_cycles", "hi_cycles", "scenario", "verdict"})
	return s, errors.Join(err, err2)
}

func (s *csvSink) event(e *analysis.EventRow) error {
	u := func(v uint64) string { return strconv.FormatUint(v, 10) }
	return s.events.Write([]string{u(e.ID), u(e.Tuple), u(e.At.Lo), u(e.At.Hi), e.Node, e.Channel,
		e.Point, e.Verdict.String()})
}

func (s *csvSink) duration(d *analysis.DurationRow) error {
	u := func(v uint64) string { return strconv.FormatUint(v, 10) }
	i := func(v int64) string { return strconv.FormatInt(v, 10) }
	return s.durations.Write([]string{
		u(d.ID), u(d.Tuple), d.From, d.To, d.FromNode, d.ToNode, d.Kind,
		i(d.Lo), i(d.Hi), d.Scenario.String(), d.Verdict.String()})
}

func (s *csvSink) finish(*analysis.Answer) error {
	s.events.Flush()
	s.durations.Flush()
	return errors.Join(s.events.Error(), s.durations.Error())
}

type textSink struct {
	w    *bufio.Writer
	text string
}

func newText(text string) func([]io.Writer) (sink, error) {
	return func(w []io.Writer) (sink, error) { return &textSink{bufio.NewWriter(w[0]), text}, nil }
}

func (*textSink) event(*analysis.EventRow) error       { return nil }
func (*textSink) duration(*analysis.DurationRow) error { return nil }
func (s *textSink) finish(*analysis.Answer) error {
	s.w.WriteString(s.text)
	return s.w.Flush()
}
