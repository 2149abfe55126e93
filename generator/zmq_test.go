package generator

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"
)

// countIDs makes the ids of one thread. It needs no ring directory.
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

// connectPair connects a sender over ZeroMQ to a receiver. The receiver runs until the test asks
// for its result.
func connectPair(
	t testing.TB, threads int, push PushOptions, o SenderOptions, r ReceiverOptions,
) (*Sender, func() ReceiverResult) {
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
	o.Connect = func(thread int) (Sink, error) {
		return NewPush(t.Context(), endpoints[thread], push)
	}
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
			sender, received := connectPair(t, 2, PushOptions{Batch: batch},
				SenderOptions{FlatOut: time.Minute, Limit: 20_000, Batch: batch, Tuples: tuples},
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
				t.Errorf("sent %d, check %+v, whole bodies %d, want %+v",
					sent.Sent, got.Check, bodies.Load(), want)
			}
			// A busy machine may delay the receiver for so long that the sender makes the mark
			// Blocked. No other mark may be made.
			onlyBlocked := len(sent.Marks) == 1 && has(sent.Marks, Blocked)
			if len(got.Marks) > 0 || len(sent.Marks) > 0 && !onlyBlocked {
				t.Errorf("marks %v %v, want none", sent.Marks, got.Marks)
			}
		})
	}
}

func TestPushSaysThatNobodyIsThere(t *testing.T) {
	_, err := NewPush(
		t.Context(), "tcp://127.0.0.1:1", PushOptions{Patience: 50 * time.Millisecond},
	)
	if err == nil {
		t.Fatal("connected to nobody")
	}
	t.Log(err)
}

// A Push does not change tuples that wait in it, even if more tuples wait than the Push has slots
// (cp_slot).
func TestPushKeepsWhatWaits(t *testing.T) {
	const n = 60_000 // of 400 bytes: more than the kernel's buffers and all slots hold
	pull, err := NewPull("tcp://127.0.0.1:*", PullOptions{HighWater: 10})
	if err != nil {
		t.Fatal(err)
	}
	push, err := NewPush(
		t.Context(), pull.Endpoint(), PushOptions{HighWater: n, Patience: 20 * time.Second},
	)
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
	check := func(_ int, b *Bucket) {
		for _, tuple := range b.Tuples {
			got := binary.LittleEndian.Uint64(tuple.Body[392:])
			if got != next || tuple.ID != next+1 {
				t.Errorf("tuple %d came with id %d and number %d", next, tuple.ID, got)
			}
			next++
		}
	}
	receiver, err := NewReceiver(ReceiverOptions{
		Sources: []Source{pull}, Silence: 20 * time.Second, Handle: check,
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := receiver.Run(t.Context())
	if err = errors.Join(err, <-closed); err != nil || !r.Whole() || next != n {
		t.Errorf("%d of %d: %+v, %v", next, n, r.Check, err)
	}
}

// A message contains as many tuples as Batch says, but no more than fit into the longest message.
func TestPushPutsTuplesTogether(t *testing.T) {
	thousand := make([]Tuple, 1000)
	for i := range thousand {
		thousand[i] = Tuple{uint64(i), []byte("body")}
	}
	big := make([]Tuple, 10)
	for i := range big {
		big[i] = Tuple{uint64(i), make([]byte, MaxTuple)}
	}
	for _, test := range []struct {
		tuples []Tuple
		batch  int
		want   []int
	}{
		{thousand, 300, []int{300, 300, 300, 100}},
		{thousand[:3], 1, []int{1, 1, 1}},
		{big, 10, []int{7, 3}},
	} {
		pull, err := NewPull("tcp://127.0.0.1:*", PullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer pull.Close()
		push, err := NewPush(t.Context(), pull.Endpoint(), PushOptions{Batch: test.batch})
		if err != nil {
			t.Fatal(err)
		}
		n, err := push.Send(test.tuples)
		if n != len(test.tuples) || err != nil || !slices.Equal(push.counts, test.want) {
			t.Errorf("%d tuples, batch %d: %d taken in messages of %v, want %v, %v",
				len(test.tuples), test.batch, n, push.counts, test.want, err)
		}
		closed := make(chan error, 1)
		go func() { closed <- push.Close(End{0, uint64(len(test.tuples))}) }()
		var b Bucket
		for got := 0; got < len(test.tuples); got += len(b.Tuples) {
			if err := pull.Receive(&b, 100); err != nil || len(b.Malformed) > 0 {
				t.Fatal(err, b.Malformed)
			}
		}
		if err := <-closed; err != nil {
			t.Error(err)
		}
	}
}

// At its high-water mark a connection takes nothing more. But the kernel's buffers hold some
// megabytes in addition to the messages that the mark allows.
func TestHighWaterMarkBounds(t *testing.T) {
	const most = 60 << 20
	pull, err := NewPull("tcp://127.0.0.1:*", PullOptions{HighWater: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer pull.Close()
	push, err := NewPush(t.Context(), pull.Endpoint(), PushOptions{HighWater: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer push.socket.close()
	if err := push.socket.set(lingerOption, 0); err != nil { // nobody will receive the rest
		t.Fatal(err)
	}
	body, taken := make([]byte, MaxTuple), 0
	for quiet := 0; quiet < 20 && taken*MaxTuple < most; quiet++ {
		n, err := push.Send([]Tuple{{uint64(taken + 1), body}})
		if err != nil {
			t.Fatal(err)
		}
		if taken += n; n > 0 {
			quiet = 0
		} else {
			push.WaitRoom(5 * time.Millisecond)
		}
	}
	if taken*MaxTuple >= most {
		t.Errorf("%d MB were taken, and nobody received anything", taken*MaxTuple>>20)
	}
}
