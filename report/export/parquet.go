package export

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/parquet-go/parquet-go"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

const (
	// groupRows is the number of rows in a row group. All of them are in memory until the row group
	// is written.
	groupRows = 1 << 17
	// batchRows is the number of rows that are passed to the writer at once.
	batchRows = 1 << 10
)

// eventRow is a row of events.parquet.
type eventRow struct {
	TupleID uint64 `parquet:"tuple_id,delta"`
	Way     uint64 `parquet:"way,delta"`
	Lo      uint64 `parquet:"lo_cycles,delta"`
	Hi      uint64 `parquet:"hi_cycles,delta"`
	Node    string `parquet:"node,dict"`
	Channel string `parquet:"channel,dict"`
	Point   string `parquet:"point,dict"`
	Verdict string `parquet:"verdict,dict"`
}

// durationRow is a row of durations.parquet.
type durationRow struct {
	TupleID  uint64 `parquet:"tuple_id,delta"`
	Way      uint64 `parquet:"way,delta"`
	From     string `parquet:"from_point,dict"`
	To       string `parquet:"to_point,dict"`
	FromNode string `parquet:"from_node,dict"`
	ToNode   string `parquet:"to_node,dict"`
	Kind     string `parquet:"kind,dict"`
	Lo       int64  `parquet:"lo_cycles,delta"`
	Hi       int64  `parquet:"hi_cycles,delta"`
	Scenario string `parquet:"scenario,dict"`
	Verdict  string `parquet:"verdict,dict"`
}

// table is a Parquet file that is being written.
type table[Row any] struct {
	name   string
	rows   []Row // rows that the writer does not have yet
	writer *parquet.GenericWriter[Row]
}

func newTable[Row any](w io.Writer, name string) *table[Row] {
	var row Row
	writer := parquet.NewGenericWriter[Row](w, parquet.NewSchema(name, parquet.SchemaOf(row)),
		parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(groupRows))
	return &table[Row]{name, make([]Row, 0, batchRows), writer}
}

func (t *table[Row]) add(r Row) error {
	if t.rows = append(t.rows, r); len(t.rows) < batchRows {
		return nil
	}
	return t.flush()
}

func (t *table[Row]) flush() error {
	if _, err := t.writer.Write(t.rows); err != nil {
		return fmt.Errorf("write table %q: %w", t.name, err)
	}
	t.rows = t.rows[:0]
	return nil
}

// finish ends the file. It does not close the underlying writer.
func (t *table[Row]) finish(about [][2]string) error {
	if err := t.flush(); err != nil {
		return err
	}
	for _, a := range about {
		t.writer.SetKeyValueMetadata(a[0], a[1])
	}
	if err := t.writer.Close(); err != nil {
		return fmt.Errorf("end table %q: %w", t.name, err)
	}
	return nil
}

type parquetSink struct {
	events    *table[eventRow]
	durations *table[durationRow]
}

func newParquetSink(w []io.Writer) (sink, error) {
	return &parquetSink{
		newTable[eventRow](w[0], "events"), newTable[durationRow](w[1], "durations"),
	}, nil
}

func (s *parquetSink) event(e *analysis.EventRow) error {
	return s.events.add(eventRow{
		e.ID, e.Tuple, e.At.Lo, e.At.Hi, e.Node, e.Channel, e.Point, e.Verdict.String(),
	})
}

func (s *parquetSink) duration(d *analysis.DurationRow) error {
	return s.durations.add(durationRow{
		d.ID, d.Tuple, d.From, d.To, d.FromNode, d.ToNode, d.Kind, d.Lo, d.Hi,
		d.Scenario.String(), d.Verdict.String(),
	})
}

func (s *parquetSink) finish(a *analysis.Answer) error {
	hz := func(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }
	about := [][2]string{
		{"run", a.Run}, {"reference_node", a.Reference.Node},
		{"frequency_lo_hz", hz(a.Reference.FrequencyLo_hz)},
		{"frequency_hi_hz", hz(a.Reference.FrequencyHi_hz)},
		{"frequency_source", a.Reference.Source},
	}
	return errors.Join(s.events.finish(about), s.durations.finish(about))
}
