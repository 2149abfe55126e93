package control

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Train is one train in a node's report. It contains the stamps that package minrtt took, and
// nothing that was computed from the stamps. The reporting node started the exchanges.
type Train struct {
	KernelStamps uint64 // how many stamps of the exchanges the kernel took; each exchange has four
	Exchanges    []tscratio.Exchange
	Arrivals     []Arrival
}

// Arrival is a probe whose answer proves nothing, so probe and answer do not count as an exchange.
// The arrival of the probe still proves a constraint.
type Arrival struct {
	Sent, Received tscratio.Interval
}

// MaxBatchStamps is the largest number of stamps in one Trains message.
const MaxBatchStamps = 400_000

var errTrainsEnd = errors.New("trains end early")

// trainWriter writes each reading as the difference from the previous reading of the same counter.
// A difference mostly takes two or three bytes.
type trainWriter struct {
	b    []byte
	last [2]uint64 // last reading of the reporting node, and of its peer
}

func (w *trainWriter) interval(side int, i tscratio.Interval) {
	w.b = binary.AppendVarint(w.b, int64(i.Lo-w.last[side]))
	w.b = binary.AppendUvarint(w.b, i.Hi-i.Lo)
	w.last[side] = i.Lo
}

func (m *Trains) bulk() []byte {
	var w trainWriter
	w.b = binary.AppendUvarint(w.b, uint64(len(m.Trains)))
	for _, t := range m.Trains {
		w.b = binary.AppendUvarint(w.b, t.KernelStamps)
		w.b = binary.AppendUvarint(w.b, uint64(len(t.Exchanges)))
		for _, e := range t.Exchanges {
			w.interval(0, e.Sent)
			w.interval(1, e.Received)
			w.interval(1, e.Answered)
			w.interval(0, e.Returned)
		}
		w.b = binary.AppendUvarint(w.b, uint64(len(t.Arrivals)))
		for _, a := range t.Arrivals {
			w.interval(0, a.Sent)
			w.interval(1, a.Received)
		}
	}
	return w.b
}

type trainReader struct {
	b      []byte
	last   [2]uint64
	stamps int
	err    error
}

func (r *trainReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errTrainsEnd)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *trainReader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
	r.b = nil
}

// count reads the number of elements that follow, and refuses a number that is too large: each
// element takes at least the given number of bytes, and contains the given number of stamps.
func (r *trainReader) count(what string, bytes, stamps int) int {
	n := r.uvarint()
	if n > uint64(len(r.b)/bytes) {
		r.fail(fmt.Errorf("%d %s in %d bytes", n, what, len(r.b)))
		return 0
	}
	if r.stamps += int(n) * stamps; r.stamps > MaxBatchStamps {
		r.fail(fmt.Errorf("more than %d stamps", MaxBatchStamps))
		return 0
	}
	return int(n)
}

func (r *trainReader) interval(side int) tscratio.Interval {
	d, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(errTrainsEnd)
		return tscratio.Interval{}
	}
	r.b = r.b[n:]
	lo := r.last[side] + uint64(d)
	hi := lo + r.uvarint()
	if hi < lo {
		r.fail(fmt.Errorf("stamp from %d to %d", lo, hi))
	}
	r.last[side] = lo
	return tscratio.Interval{Lo: lo, Hi: hi}
}

func (m *Trains) setBulk(b []byte) error {
	r := trainReader{b: b}
	trains := r.count("trains", 3, 0)
	if trains > MaxTrains {
		return fmt.Errorf("%d trains, more than %d", trains, MaxTrains)
	}
	if trains > 0 {
		m.Trains = make([]Train, trains)
	}
	for i := range m.Trains {
		t := &m.Trains[i]
		t.KernelStamps = r.uvarint()
		if n := r.count("exchanges", 8, 4); n > 0 {
			t.Exchanges = make([]tscratio.Exchange, n)
		}
		for j := range t.Exchanges {
			e := &t.Exchanges[j]
			e.Sent, e.Received = r.interval(0), r.interval(1)
			e.Answered, e.Returned = r.interval(1), r.interval(0)
		}
		if n := r.count("arrivals", 4, 2); n > 0 {
			t.Arrivals = make([]Arrival, n)
		}
		for j := range t.Arrivals {
			t.Arrivals[j] = Arrival{r.interval(0), r.interval(1)}
		}
		if t.KernelStamps > uint64(4*len(t.Exchanges)) {
			r.fail(fmt.Errorf("%d kernel stamps in %d exchanges", t.KernelStamps, len(t.Exchanges)))
		}
		if r.err != nil {
			return r.err
		}
	}
	if r.err == nil && len(r.b) > 0 {
		r.fail(fmt.Errorf("%d bytes after the last train", len(r.b)))
	}
	return r.err
}
