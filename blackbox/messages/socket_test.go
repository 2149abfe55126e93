package messages

import (
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// Sockets keeps each call once, in at most 72 bytes. Nothing stays in the logs.
func TestSocketsMemory(t *testing.T) {
	const calls = 200_000
	w := newWorld(seed.Random(t))
	ends := w.connect(1000, 2000)
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
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
	all := Sockets(w.logs[:])
	for _, s := range all {
		if err := s.Load(); err != nil {
			t.Fatal(err)
		}
	}
	each := float64(used()-before) / calls
	found := 0
	for _, s := range all {
		found += len(s.Sends) + len(s.Receives)
	}
	if each > 72 || found != calls {
		t.Errorf("%d calls of %d, %.0f bytes each", found, calls, each)
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
			for range 2 {
				if held := len(s.Sends) + len(s.Receives); held > 0 {
					t.Fatalf("%d calls are loaded", held)
				}
				if err := s.Load(); err != nil {
					t.Fatal(err)
				}
				if most == 0 {
					break
				}
				if len(s.unloaded.sends)+len(s.unloaded.receives) > 0 {
					t.Fatal("calls are in memory and in the file")
				}
				s.Release()
			}
			if err := s.Load(); err != nil {
				t.Fatal(err)
			}
			for _, c := range append(s.Sends, s.Receives...) {
				c.Log, c.Connection = nil, nil // they differ
				all[i] = append(all[i], c)
			}
		}
	}
	if diff := cmp.Diff(all[0], all[1]); diff != "" || len(all[0]) != 2000 {
		t.Errorf("%d calls (-memory +file):\n%s", len(all[0]), diff)
	}
}
