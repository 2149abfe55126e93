package export

import (
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

// groupRows is how many rows a row group has. All of them are in memory until the group is written.
const groupRows = 1 << 17

type columnKind uint8

const (
	unsigned columnKind = iota
	signed
	text
)

type column struct {
	name string
	kind columnKind

	numbers []int64
	words   []parquet.ByteArray
}

// table is a Parquet file that is being written.
type table struct {
	columns []column
	rows    int
	writer  *file.Writer
}

func newTable(w io.Writer, name string, columns ...column) (*table, error) {
	var fields schema.FieldList
	for _, c := range columns {
		var node schema.Node
		var err error
		switch c.kind {
		case unsigned:
			node, err = schema.NewPrimitiveNodeLogical(c.name, parquet.Repetitions.Required, schema.NewIntLogicalType(64, false), parquet.Types.Int64, 0, -1)
		case signed:
			node, err = schema.NewPrimitiveNodeLogical(c.name, parquet.Repetitions.Required, schema.NewIntLogicalType(64, true), parquet.Types.Int64, 0, -1)
		default:
			node, err = schema.NewPrimitiveNodeLogical(c.name, parquet.Repetitions.Required, schema.StringLogicalType{}, parquet.Types.ByteArray, 0, -1)
		}
		if err != nil {
			return nil, fmt.Errorf("describe column %q: %w", c.name, err)
		}
		fields = append(fields, node)
	}
	root, err := schema.NewGroupNode(name, parquet.Repetitions.Required, fields, -1)
	if err != nil {
		return nil, fmt.Errorf("describe table %q: %w", name, err)
	}
	properties := []parquet.WriterProperty{parquet.WithCompression(compress.Codecs.Zstd), parquet.WithCreatedBy("cloudprofiler"), parquet.WithDictionaryDefault(false)}
	for _, c := range columns {
		if c.kind == text {
			properties = append(properties, parquet.WithDictionaryFor(c.name, true))
		} else {
			properties = append(properties, parquet.WithEncodingFor(c.name, parquet.Encodings.DeltaBinaryPacked))
		}
	}
	writer, err := file.NewParquetWriterWithError(w, root, file.WithWriterProps(parquet.NewWriterProperties(properties...)))
	if err != nil {
		return nil, fmt.Errorf("begin table %q: %w", name, err)
	}
	return &table{columns: columns, writer: writer}, nil
}

// number and word set a column of the row that next ends.
func (t *table) number(column int, v int64) {
	t.columns[column].numbers = append(t.columns[column].numbers, v)
}

func (t *table) word(column int, s string) {
	t.columns[column].words = append(t.columns[column].words, parquet.ByteArray(s))
}

// next ends a row.
func (t *table) next() error {
	if t.rows++; t.rows < groupRows {
		return nil
	}
	return t.flush()
}

func (t *table) flush() error {
	if t.rows == 0 {
		return nil
	}
	group, err := t.writer.AppendRowGroupChecked()
	if err != nil {
		return fmt.Errorf("begin row group: %w", err)
	}
	for i := range t.columns {
		c := &t.columns[i]
		w, err := group.NextColumn()
		if err != nil {
			return fmt.Errorf("begin column %q: %w", c.name, err)
		}
		switch w := w.(type) {
		case *file.Int64ColumnChunkWriter:
			_, err = w.WriteBatch(c.numbers, nil, nil)
		case *file.ByteArrayColumnChunkWriter:
			_, err = w.WriteBatch(c.words, nil, nil)
		}
		if err != nil {
			return fmt.Errorf("write column %q: %w", c.name, err)
		}
		if err := w.Close(); err != nil {
			return fmt.Errorf("end column %q: %w", c.name, err)
		}
		c.numbers, c.words = c.numbers[:0], c.words[:0]
	}
	t.rows = 0
	return group.Close()
}

// finish ends the file. It does not close what is underneath.
func (t *table) finish() error {
	if err := t.flush(); err != nil {
		return err
	}
	return t.writer.FlushWithFooter()
}
