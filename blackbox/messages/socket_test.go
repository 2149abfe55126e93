package messages

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// The calls of a connection need not fit into memory, not even while they are read.
func TestSocketsMemory(t *testing.T) {
	const calls = 400_000
	w := newWorld(seed.Random(t))
	store := NewStore(1000)
	defer store.Close()
	for _, l := range w.logs {
		l.store = store
	}
	ends := w.connect(1000, 2000)
	used := func() float64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := used()
	for range calls / 2 {
		for i, k := range []blackbox.Kind{blackbox.Sent, blackbox.Received} {
			w.now += 100
			ends[i].log.add(blackbox.Message{Kind: k, Began_cycles: w.now, Ended_cycles: w.now + 50,
				Connection: ends[i].number, Thread: 1, Position: ends[0].sent, Bytes: 10,
				Stream: true, Sure: true})
		}
		ends[0].sent += 10
	}
	if err := store.finish(); err != nil {
		t.Fatal(err)
	}
	all := Sockets(w.logs[:])
	found, most := 0, 0.0
	for _, s := range all {
		for _, q := range []*Sequence{&s.Sends, &s.Receives} {
			for r := q.Read(); !r.Done; r.Next() {
				if found++; found%(calls/8) == 1 {
					most = max(most, used()-before)
				}
			}
		}
	}
	if most > 2*calls || found != calls {
		t.Errorf("%d calls of %d, %.0f bytes in memory", found, calls, most)
	}
	runtime.KeepAlive(w)
}

// If few calls fit into memory, Sockets returns the same calls, and the memory does not grow with
// their number.
func TestStore(t *testing.T) {
	var all [2][]Call
	for i, most := range []int{0, 70} {
		store := NewStore(most)
		defer store.Close()
		w := newWorld(seed.Random(t))
		for _, l := range w.logs {
			l.store = store
		}
		ends := w.connect(1000, 2000)
		for n := range 1000 {
			for k, kind := range []blackbox.Kind{blackbox.Sent, blackbox.Received} {
				w.now += 100
				if n > 0 { // thread 1 never wakes itself
					ends[k].log.add(blackbox.Happening{What: blackbox.Woke, Thread: 1,
						Other: uint32(n % 3 &^ 1), Began_cycles: w.now - 20,
						Ended_cycles: w.now - 10})
				}
				ends[k].log.add(blackbox.Message{Kind: kind, Began_cycles: w.now,
					Ended_cycles: w.now + 50, Connection: ends[k].number, Thread: uint32(n % 3),
					Position: ends[0].sent, Bytes: 10, Stream: true, Sure: n%2 == 0,
					Early: kind == blackbox.Sent, Width_cycles: 4 * blackbox.MinWidth_cycles})
			}
			ends[0].sent += 10
		}
		if err := store.finish(); err != nil {
			t.Fatal(err)
		}
		for _, s := range Sockets(w.logs[:]) {
			if inMemory := s.Sends.of.sends; most > 0 && len(inMemory) > 0 {
				t.Fatalf("%d calls are in memory", len(inMemory))
			}
			for _, q := range []*Sequence{&s.Sends, &s.Receives} {
				before := len(all[i])
				for r := q.Read(); !r.Done; r.Next() {
					c := r.Call
					c.Log, c.Connection = nil, nil // they differ
					switch after := c.Lo_cycles - c.Woken_cycles; {
					case c.By.Number == 1 || c.Position == 1001:
						if c.Waker != 0 || c.Woken_cycles != 0 {
							t.Fatalf("%+v was not woken", c)
						}
					case c.Waker != 1 || after != 15:
						t.Fatalf("%+v was woken 15 cycles before", c)
					}
					all[i] = append(all[i], c)
				}
				if n := len(all[i]) - before; n != q.Len() {
					t.Errorf("%d calls, want %d", n, q.Len())
				}
			}
			if err := s.Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" || len(all[0]) != 2000 {
		t.Errorf("%d calls (-memory +file):\n%s", len(all[0]), diff)
	}
}
