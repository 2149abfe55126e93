package logstore

import (
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/bench/dataset"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// events returns the next n records of a data set.
func events(s *dataset.Set, n int) []Event {
	counters, ids := make([]uint64, n), make([]uint64, n)
	s.Fill(counters, ids)
	all := make([]Event, n)
	for i := range all {
		all[i] = Event{counters[i], ids[i]}
	}
	return all
}

func newSet(t testing.TB, name string, seed uint64) *dataset.Set {
	t.Helper()
	s, err := dataset.New(name, seed)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// On every data set, a block takes at most 1.15 × the entropy of its records, and decodes to the
// same rows.
func TestSizeStaysNearEntropy(t *testing.T) {
	for _, name := range dataset.Names() {
		t.Run(name, func(t *testing.T) {
			blocks := 16
			if strings.HasPrefix(name, "loop/") {
				// No formula gives the entropy of these records, so the test estimates it from the
				// records themselves. The requirement applies to at least ten million records.
				blocks = 153 // blocks of 65,536 records: more than ten million records
				if testing.Short() || seed.Share() > 1 {
					blocks = 16
				}
			}
			s := newSet(t, name, 1)
			counter_bits, id_bits := s.EntropyBits()
			var plugIn dataset.PlugIn
			var e encoder
			var d decoder
			var got Block
			var buffer []byte
			bytes := 0
			counters, ids, records := make([]uint64, MaxRows), make([]uint64, MaxRows),
				make([]Event, MaxRows)
			for range blocks {
				s.Fill(counters, ids)
				plugIn.Observe(counters)
				for i := range records {
					records[i] = Event{counters[i], ids[i]}
				}
				block := Block{First: 7, Events: records}
				buffer = e.appendBlock(buffer[:0], &block, s.Quantum)
				bytes += len(buffer)
				h, ok := parseBlockHeader(buffer)
				if !ok {
					t.Fatal("header does not read back")
				}
				if err := d.block(&got, &h, buffer[blockHeaderSize:]); err != nil {
					t.Fatal(err)
				}
				for i, r := range got.Events {
					if r != records[i] {
						t.Fatalf("record %d is %v, was %v", i, r, records[i])
					}
				}
			}
			if math.IsNaN(counter_bits) {
				counter_bits = plugIn.Bits()
			}
			entropy := (counter_bits + id_bits) / 8
			perEvent := float64(bytes) / float64(blocks*MaxRows)
			bar := 1.15 * entropy
			t.Logf("%.4f bytes an event, entropy %.4f, bar %.4f", perEvent, entropy, bar)
			if perEvent > bar {
				t.Errorf("%.4f bytes an event, want at most %.4f", perEvent, bar)
			}
		})
	}
}

// BenchmarkEvents measures whole blocks with checksums. MB/s is computed from the wall clock.
// thread-MB/s is computed from the time for which the thread had a core. If other programs use the
// machine at the same time, only thread-MB/s can be compared.
func BenchmarkEvents(b *testing.B) {
	for _, name := range dataset.Names() {
		s := newSet(b, name, 1)
		block := Block{Events: events(s, MaxRows)}
		var e encoder
		var d decoder
		var out Block
		buffer := e.appendBlock(nil, &block, s.Quantum)
		measure := func(what string, once func()) {
			b.Run(what+"/"+name, func(b *testing.B) {
				b.SetBytes(16 * MaxRows)
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				begin := threadTime(b)
				for b.Loop() {
					once()
				}
				b.ReportMetric(16*MaxRows*float64(b.N)/1e6/(threadTime(b)-begin).Seconds(),
					"thread-MB/s")
				b.ReportMetric(float64(len(buffer))/MaxRows, "B/event")
			})
		}
		measure("encode", func() {
			buffer = e.appendBlock(buffer[:0], &block, s.Quantum)
		})
		hurried := Block{Events: block.Events, Hurried: true}
		measure("hurried", func() {
			buffer = e.appendBlock(buffer[:0], &hurried, s.Quantum)
		})
		buffer = e.appendBlock(buffer[:0], &block, s.Quantum)
		h, _ := parseBlockHeader(buffer)
		measure("decode", func() {
			if checksum(buffer[blockHeaderSize:]) != h.checksum {
				b.Fatal(ErrChecksum)
			}
			if err := d.block(&out, &h, buffer[blockHeaderSize:]); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// threadTime returns for how long this thread has had a core.
func threadTime(b *testing.B) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
		b.Fatal(err)
	}
	return time.Duration(t.Nano())
}
