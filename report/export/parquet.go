package export

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/cloudprofiler/cloudprofiler/runs"
)

const (
	// groupRows is the number of rows in a row group. All rows of a group are in memory until the
	// group is written.
	groupRows = 1 << 17
	// batchRows is the number of rows that are passed to the writer at once.
	batchRows = 1 << 10
	// partRows is the number of events and durations of a part. A part is so small that any query
	// engine can join the rows of one part in memory. It is so large that a run of a billion events
	// has only hundreds of parts.
	partRows = 1 << 23
)

// table is a Parquet file that is being written.
type table[Row any] struct {
	name   string
	rows   []Row // rows that the writer does not have yet
	writer *parquet.GenericWriter[Row]
}

func newTable[Row any](w io.Writer, name string, about []aboutRow) *table[Row] {
	var row Row
	t := &table[Row]{name, make([]Row, 0, batchRows), parquet.NewGenericWriter[Row](w,
		parquet.NewSchema(name, parquet.SchemaOf(row)), parquet.Compression(&parquet.Zstd),
		parquet.DefaultEncodingFor(parquet.Int64, &parquet.DeltaBinaryPacked),
		parquet.DefaultEncodingFor(parquet.Int32, &parquet.DeltaBinaryPacked),
		parquet.MaxRowsPerRowGroup(groupRows))}
	for _, a := range about {
		t.writer.SetKeyValueMetadata(a.Key, a.Value)
	}
	return t
}

func (t *table[Row]) add(r *Row) error {
	if t.rows = append(t.rows, *r); len(t.rows) < batchRows {
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
func (t *table[Row]) finish() error {
	if err := t.flush(); err != nil {
		return err
	}
	if err := t.writer.Close(); err != nil {
		return fmt.Errorf("end table %q: %w", t.name, err)
	}
	return nil
}

// writeTable writes a whole table.
func writeTable[Row any](w io.Writer, name string, about []aboutRow, rows []Row) error {
	t := newTable[Row](w, name, about)
	for i := range rows {
		if err := t.add(&rows[i]); err != nil {
			return err
		}
	}
	return t.finish()
}

// parquetWriter writes events and durations in parts. All rows of a tuple are in one part. The name
// of a part's directory contains a number, which query engines read as the value of a column.
type parquetWriter struct {
	create   createPart
	small    []io.Writer // for edges, about and origins
	partRows int

	about     []aboutRow
	part      int // the number of the open part
	rows      int // rows in the open part
	files     [2]io.Closer
	events    *table[eventRow]
	durations *table[durationRow]
	origins   *table[originRow]
}

// createPart begins the file of a table's part.
type createPart func(table string, part int) (io.WriteCloser, error)

func newParquet(parts map[string]*runs.ExportTable, small []io.Writer) *parquetWriter {
	return &parquetWriter{
		create: func(table string, part int) (io.WriteCloser, error) {
			return parts[table].Create(fmt.Sprintf("part=%d/%s.parquet", part, table))
		},
		small: small, partRows: partRows,
	}
}

func (p *parquetWriter) begin(about []aboutRow) error {
	p.about = about
	p.origins = newTable[originRow](p.small[2], "origins", about)
	return p.open()
}

func (p *parquetWriter) open() error {
	events, err := p.create("events", p.part)
	if err != nil {
		return err
	}
	p.files[0] = events
	durations, err := p.create("durations", p.part)
	if err != nil {
		return errors.Join(err, events.Close())
	}
	p.files[1] = durations
	p.events = newTable[eventRow](events, "events", p.about)
	p.durations = newTable[durationRow](durations, "durations", p.about)
	return nil
}

func (p *parquetWriter) event(e *eventRow) error {
	p.rows++
	return p.events.add(e)
}

func (p *parquetWriter) duration(d *durationRow) error {
	p.rows++
	return p.durations.add(d)
}

func (p *parquetWriter) origin(o *originRow) error { return p.origins.add(o) }

func (p *parquetWriter) cut() error {
	if p.rows < p.partRows {
		return nil
	}
	if err := p.endPart(); err != nil {
		return err
	}
	p.part, p.rows = p.part+1, 0
	return p.open()
}

// endPart ends the open part.
func (p *parquetWriter) endPart() error {
	return errors.Join(p.events.finish(), p.durations.finish(), p.close())
}

// close closes the files of the open part, if there is one.
func (p *parquetWriter) close() (err error) {
	for i, f := range p.files {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
		p.files[i] = nil
	}
	return err
}

func (p *parquetWriter) finish(edges []edgeRow) error {
	return errors.Join(p.endPart(), p.origins.finish(),
		writeTable(p.small[0], "edges", p.about, edges),
		writeTable(p.small[1], "about", p.about, p.about))
}
