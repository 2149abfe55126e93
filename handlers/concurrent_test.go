package handlers

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// drainWhile runs f, which logs to a channel, while a drainer drains that channel. When f has
// returned, drainWhile closes the channel, and returns the drain with everything that it took.
func drainWhile(t *testing.T, c *Channel, f func()) *drain {
	t.Helper()
	d, err := newDrain(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.consumer.Close() })
	done, failed := make(chan bool), make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				failed <- nil
				return
			default:
			}
			moved, err := d.drainOnce(false)
			if err != nil {
				failed <- err
				return
			}
			if !moved {
				runtime.Gosched()
			}
		}
	}()
	f()
	close(done)
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.finishDrain(); err != nil {
		t.Fatal(err)
	}
	return d
}

// childOf returns the id of the child that the tests link to a parent.
func childOf(parent uint64) uint64 { return parent*0x9E3779B97F4A7C15 + 1 }

// parentRecords checks that a link channel's records are whole pairs, and then keeps only the
// parents' records.
func parentRecords(d *drain) error {
	for i, shard := range d.takenRecords {
		if len(shard)%2 != 0 {
			return fmt.Errorf("shard %d: %d records are no pairs", i, len(shard))
		}
		var left []ring.Record
		for k := 0; k < len(shard); k += 2 {
			parent, child := shard[k], shard[k+1]
			if child.ID != childOf(parent.ID) || child.Counter != parent.Counter {
				return fmt.Errorf("shard %d: records %d and %d, %v and %v, are no pair",
					i, k, k+1, parent, child)
			}
			left = append(left, parent)
		}
		d.takenRecords[i] = left
	}
	return nil
}

// Every event comes out once, whole, and in its writer's order, or is counted as dropped. Rings are
// small, so that the tail goes around them many times, and the drainer and the writers meet.
func TestWhatGoesInComesOut(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	t.Cleanup(func() { runtime.GOMAXPROCS(cores) })
	const events = 4000 // events of each writer
	for _, n := range []int{1, 2, 4} {
		for _, handler := range []string{"id", "link"} {
			for _, policy := range []string{"block", "drop"} {
				for _, writers := range []int{1, 2, 8} {
					for _, shards := range []string{"Open", "OpenShared",
						"OpenShared with one shard", "OpenShared with few shards"} {
						many := shards != "Open"
						if writers > 1 && !many {
							continue
						}
						t.Run(fmt.Sprintf("%d cores/%s/%s/%d writers/%s",
							n, handler, policy, writers, shards), func(t *testing.T) {
							runtime.GOMAXPROCS(n)
							defer runtime.GOMAXPROCS(cores)
							if shards == "OpenShared with few shards" {
								runtime.GOMAXPROCS(1 + n/4) // number of processors at the open
							}
							c := openTest(t, many,
								Options{Handler: handler, Policy: policy, Buffer: "1KiB"})
							runtime.GOMAXPROCS(n)
							if shards == "OpenShared with one shard" {
								c.shardMask, c.processors = 0, 0
							}
							d := drainWhile(t, c, func() {
								var all sync.WaitGroup
								for w := range uint64(writers) {
									all.Go(func() {
										for k := range uint64(events) {
											if id := w<<loadShift | k; handler == "link" {
												c.Link(id, childOf(id))
											} else {
												c.Log(id)
											}
										}
									})
								}
								all.Wait()
							})
							if d.holes > 0 {
								t.Errorf("%d holes, and nobody was killed", d.holes)
							}
							if handler == "link" {
								if err := parentRecords(d); err != nil {
									t.Fatal(err)
								}
							}
							if err := compareCounts(d, slices.Repeat([]uint64{events}, writers),
								policy == "block" && d.lookedOften()); err != nil {
								t.Fatal(err)
							}
						})
					}
				}
			}
		}
	}
}

// A goroutine may pass a channel that Open returned to another goroutine.
func TestHandOver(t *testing.T) {
	for _, stamp := range []string{"rdtscp", "rdtsc"} {
		c := openTest(t, false, Options{Handler: "id", Stamp: stamp, Buffer: "1KiB"})
		const turns, events = 200, 100
		d := drainWhile(t, c, func() {
			channels := make(chan *Channel, 1)
			channels <- c
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					for range turns / 4 {
						mine := <-channels
						begun := *mine.shard.Tail
						for n := range uint64(events) {
							mine.Log(begun + n)
						}
						channels <- mine
					}
				})
			}
			all.Wait()
		})
		if len(d.takenRecords[0]) != turns*events && d.lookedOften() {
			t.Fatalf("%d records, want %d", len(d.takenRecords[0]), turns*events)
		}
		for i, r := range d.takenRecords[0] {
			if r.ID != uint64(i) {
				t.Fatalf("record %d has id %d", i, r.ID)
			}
		}
	}
}

// The cells of the handlers counter and first-last lose no event if many writers log at once.
func TestCellsOfManyWriters(t *testing.T) {
	const writers, events = 8, 20_000
	for _, handler := range []string{"counter", "first-last"} {
		c := openTest(t, true, Options{Handler: handler})
		c.shardMask, c.processors = 0, 0 // all writers use one cell
		var all sync.WaitGroup
		for w := range uint64(writers) {
			all.Go(func() {
				for n := range uint64(events) {
					c.Log(w<<loadShift | n)
				}
				c.Log(channel.Poison)
			})
		}
		all.Wait()
		r, err := ring.Open(c.Path())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		counted, err := r.Counted()
		if err != nil {
			t.Fatal(err)
		}
		cells, err := r.FirstAndLast()
		if err != nil {
			t.Fatal(err)
		}
		const all64 = writers * events
		switch handler {
		case "counter":
			// The counting handler counts a poison event like any other event.
			if counted != all64+writers {
				t.Errorf("%d events counted, want %d", counted, all64+writers)
			}
		default:
			isFirst, isLast := cells.First.ID&(1<<loadShift-1) == 0,
				cells.Last.ID&(1<<loadShift-1) == events-1
			if cells.Count != all64 || !isFirst || !isLast ||
				cells.PoisonCounter < cells.First.Counter {
				t.Errorf("cells are %+v, want %d events from one with number 0 to one "+
					"with number %d", cells, all64, events-1)
			}
		}
	}
}

// Downsample counts the calls of all writers together, and keeps one of every n calls.
func TestDownsampleOfManyWriters(t *testing.T) {
	const writers, events, n = 8, 5000, 7
	c := openTest(t, true, Options{Handler: "downsample", Params: channel.Params{"n": n}})
	var all sync.WaitGroup
	for range writers {
		all.Go(func() {
			for id := range uint64(events) {
				c.Log(id)
			}
		})
	}
	all.Wait()
	kept := 0
	for _, shard := range readRecords(t, c) {
		kept += len(shard)
	}
	if want := (writers*events + n - 1) / n; kept != want {
		t.Errorf("%d records kept, want %d", kept, want)
	}
}
