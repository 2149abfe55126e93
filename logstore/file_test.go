package logstore

import (
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
)

var full = flag.Bool("full", false, "run what has a bar at its full size: some minutes and gigabytes")

// countingReader counts what is read through it.
type countingReader struct {
	io.ReaderAt
	bytes int64
}

func (c *countingReader) ReadAt(b []byte, offset int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, offset)
	c.bytes += int64(n)
	return n, err
}

// The bar: to decode a counter range of 1 % of a log of 1 GB reads at most 2 % of it. The short form has as many blocks, of fewer records.
func TestSeekReadsLittle(t *testing.T) {
	rows, blocks := 1024, 10_000
	if testing.Short() {
		blocks = 4000
	}
	if *full {
		rows, blocks = MaxRows, 10_200
	}
	for _, sealed := range []bool{true, false} {
		path := filepath.Join(t.TempDir(), "log")
		w, err := Create(nil, path, sampleHeader(t, Compressed))
		if err != nil {
			t.Fatal(err)
		}
		s := newSet(t, "poisson1us/seq/q1", 1)
		first, last := uint64(0), uint64(0)
		pool := events(s, rows*64) // drawn again and again, later each time
		span := pool[len(pool)-1].Counter - pool[0].Counter + 2600
		for i := range blocks {
			b := Block{Incarnation: sampleIncarnation, First: uint64(i * rows), Events: pool[i%64*rows : (i%64+1)*rows]}
			if i == 0 {
				first = b.Events[0].Counter
			}
			last = b.Events[rows-1].Counter
			if err := w.Append(&b); err != nil {
				t.Fatal(err)
			}
			for k := range b.Events {
				b.Events[k].Counter += span
			}
		}
		size := w.Size()
		if sealed {
			err = w.Seal()
			size = w.offset
		} else {
			err = w.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if *full && size < 1<<30 {
			t.Fatalf("log of %d bytes is no gigabyte", size)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		counting := &countingReader{ReaderAt: file}
		f, err := NewFile(counting, size, path)
		if err != nil {
			t.Fatal(err)
		}
		if f.Sealed() != sealed || f.Blocks() != blocks {
			t.Fatalf("sealed %v, %d blocks", f.Sealed(), f.Blocks())
		}
		if lo, hi, ok := f.CounterRange(); !ok || lo != first || hi != last {
			t.Errorf("counters %d to %d, want %d to %d", lo, hi, first, last)
		}
		lo := first + (last-first)/100*37
		hi := lo + (last-first)/100
		inside, before := 0, uint64(0)
		for c := f.Between(lo, hi); ; {
			b, err := c.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range b.Events {
				if e.Counter >= lo && e.Counter <= hi {
					inside++
				}
				if e.Counter < before {
					t.Fatal("counters go back")
				}
				before = e.Counter
			}
		}
		if want := rows * blocks / 100; inside < want*95/100 || inside > want*105/100 {
			t.Errorf("%d records inside, want about %d", inside, want)
		}
		share := float64(counting.bytes) / float64(size)
		t.Logf("sealed %v: %d bytes read of %d: %.2f %%", sealed, counting.bytes, size, 100*share)
		limit := 0.02
		if !sealed && !*full {
			limit = 0.07 // headers weigh more in small blocks
		}
		if share > limit {
			t.Errorf("read %.2f %% of the file for 1 %% of the counters", 100*share)
		}
	}
}
