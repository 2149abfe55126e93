package generator

import (
	"context"
	"encoding/binary"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// countIDs makes the ids of one thread without a ring directory.
type countIDs struct{ next uint64 }

func (c *countIDs) Next() (uint64, bool) { c.next++; return c.next - 1, true }

func testIDs(thread int) (IDSource, error) {
	return &countIDs{next: uint64(thread+1)<<countBits + 1000}, nil
}

func testTuples(t testing.TB) *Tuples {
	t.Helper()
	tuples, err := Advertisements(100, 265, 1)
	if err != nil {
		t.Fatal(err)
	}
	return tuples
}

// pair connects a sender over ZeroMQ to a receiver, which runs until the test asks for its result.
func pair(t testing.TB, threads int, push PushOptions, o SenderOptions, r ReceiverOptions) (*Sender, func() ReceiverResult) {
	t.Helper()
	var endpoints []string
	for range threads {
		p, err := NewPull("tcp://127.0.0.1:*", PullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		r.Sources = append(r.Sources, p)
		endpoints = append(endpoints, p.Endpoint())
	}
	receiver, err := NewReceiver(r)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan ReceiverResult, 1)
	go func() {
		result, err := receiver.Run(context.Background())
		if err != nil {
			t.Error(err)
		}
		done <- result
	}()
	o.Threads, o.IDs = threads, testIDs
	o.Connect = func(thread int) (Sink, error) { return NewPush(t.Context(), endpoints[thread], push) }
	if o.Tuples == nil {
		o.Tuples = testTuples(t)
	}
	sender, err := NewSender(o)
	if err != nil {
		t.Fatal(err)
	}
	return sender, func() ReceiverResult { return <-done }
}

func TestEveryTupleArrivesOnceInOrder(t *testing.T) {
	for name, batch := range map[string]int{"single": 1, "batched": 300} {
		t.Run(name, func(t *testing.T) {
			var bodies atomic.Uint64
			tuples := testTuples(t)
			sender, received := pair(t, 2, PushOptions{Batch: batch}, SenderOptions{FlatOut: time.Minute, Limit: 20_000, Batch: batch, Tuples: tuples},
				ReceiverOptions{Handle: func(_ int, b *Bucket) {
					for _, tuple := range b.Tuples {
						if len(tuple.Body) == 265 && tuple.Body[0] == '{' {
							bodies.Add(1)
						}
					}
				}})
			sent, err := sender.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got := received()
			want := Check{Received: 40_000, Sources: 2, Ended: 2}
			if got.Check != want || sent.Sent != 40_000 || bodies.Load() != 40_000 {
				t.Errorf("sent %d, check %+v, whole bodies %d, want %+v", sent.Sent, got.Check, bodies.Load(), want)
			}
			if len(got.Marks)+len(sent.Marks) > 0 {
				t.Errorf("marks %v %v, want none", sent.Marks, got.Marks)
			}
		})
	}
}

func TestPushSaysThatNobodyIsThere(t *testing.T) {
	_, err := NewPush(t.Context(), "tcp://127.0.0.1:1", PushOptions{Patience: 50 * time.Millisecond})
	if err == nil {
		t.Fatal("connected to nobody")
	}
	t.Log(err)
}

// What waits in a Push is what was sent, also when more waits than it has places for.
func TestPushKeepsWhatWaits(t *testing.T) {
	const n = 60_000 // of 400 bytes: more than the kernel's buffers and all places hold
	pull, err := NewPull("tcp://127.0.0.1:*", PullOptions{HighWater: 10})
	if err != nil {
		t.Fatal(err)
	}
	push, err := NewPush(t.Context(), pull.Endpoint(), PushOptions{HighWater: n, Patience: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	body := make([]byte, 400)
	for i := range uint64(n) {
		binary.LittleEndian.PutUint64(body[392:], i)
		if taken, err := push.Send([]Tuple{{1 + i, body}}); taken != 1 || err != nil {
			t.Fatalf("tuple %d: %d taken, %v", i, taken, err)
		}
	}
	closed := make(chan error)
	go func() { closed <- push.Close(End{1, n}) }()
	next := uint64(0)
	receiver, err := NewReceiver(ReceiverOptions{Sources: []Source{pull}, Silence: 20 * time.Second, Handle: func(_ int, b *Bucket) {
		for _, tuple := range b.Tuples {
			if got := binary.LittleEndian.Uint64(tuple.Body[392:]); got != next || tuple.ID != next+1 {
				t.Errorf("tuple %d came with id %d and number %d", next, tuple.ID, got)
			}
			next++
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := receiver.Run(t.Context())
	if err = errors.Join(err, <-closed); err != nil || !r.Whole() || next != n {
		t.Errorf("%d of %d: %+v, %v", next, n, r.Check, err)
	}
}
