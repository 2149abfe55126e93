package logstore

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// countingReader counts the bytes that are read through it.
type countingReader struct {
	io.ReaderAt
	bytes int64
}

func (c *countingReader) ReadAt(b []byte, offset int64) (int, error) {
	n, err := c.ReaderAt.ReadAt(b, offset)
	c.bytes += int64(n)
	return n, err
}

// A cursor over the 1 % of the rows that have counters in a certain range reads little of the log.
// The log has as many blocks as a log of a gigabyte, but with fewer records in each.
func TestSeekReadsLittle(t *testing.T) {
	blocks := max(4000, 10_000/seed.Share())
	if testing.Short() {
		blocks = 4000
	}
	// The blocks of this log are small, so their headers are a larger share of the file. Without an
	// index, seekInLog reads all headers.
	for sealed, limit := range map[bool]float64{true: 0.02, false: 0.07} {
		if share, _ := seekInLog(t, 1024, blocks, sealed); share > limit {
			t.Errorf("sealed %v: read %.2f %% of the file for 1 %% of the counters", sealed,
				100*share)
		}
	}
}

// In a log of a gigabyte, too, decoding 1 % of the rows reads at most 2 % of the bytes, even
// without an index.
func TestBarSeek(t *testing.T) {
	blocks := 1000
	size := proof.Begin(t)
	if size == proof.Full {
		blocks = 10_200
	}
	var bars []proof.Bar
	for _, sealed := range []bool{true, false} {
		share, bytes := seekInLog(t, MaxRows, blocks, sealed)
		if size == proof.Full && bytes < 1<<30 {
			t.Errorf("log of %d bytes is no gigabyte", bytes)
		}
		what := map[bool]string{true: "sealed", false: "not sealed"}[sealed]
		bars = append(bars, proof.Bar{
			Name: "read for 1 % of the counters of a log, " + what, Figure: 100 * share, Limit: 2,
			Unit: "% of its bytes",
		})
	}
	proof.Check(t, bars...)
}

// seekInLog writes a log, and decodes 1 % of its rows: those with counters in a certain range. It
// returns the length of the log, and which share of it was read.
func seekInLog(t *testing.T, rows, blocks int, sealed bool) (share float64, bytes int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	w, err := Create(nil, path, sampleHeader(t))
	if err != nil {
		t.Fatal(err)
	}
	s := newSet(t, "poisson1us/seq/q1", 1)
	first, last := uint64(0), uint64(0)
	pool := events(s, rows*64) // used again and again, with later counters each time
	span := pool[len(pool)-1].Counter - pool[0].Counter + 2600
	for i := range blocks {
		b := Block{
			Incarnation: sampleIncarnation, First: uint64(i * rows),
			Events: pool[i%64*rows : (i%64+1)*rows],
		}
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
	if f.sealed != sealed || f.Blocks() != blocks {
		t.Fatalf("sealed %v, %d blocks", f.sealed, f.Blocks())
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
	share = float64(counting.bytes) / float64(size)
	t.Logf("sealed %v: %d bytes read of %d: %.2f %%", sealed, counting.bytes, size, 100*share)
	return share, size
}
