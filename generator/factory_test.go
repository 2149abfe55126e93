package generator

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A madeSource makes the tuples of one source. The field body is the function that makes a tuple's
// body.
type madeSource struct {
	first, n, given uint64
	body            func(k uint64) []byte
	closed          bool
}

func (s *madeSource) Receive(b *Bucket, max int) error {
	b.Tuples, b.Ends, b.Malformed = b.Tuples[:0], b.Ends[:0], b.Malformed[:0]
	if s.given == s.n {
		b.Ends = append(b.Ends, End{s.first, s.n})
		return nil
	}
	for len(b.Tuples) < max && s.given < s.n {
		b.Tuples = append(b.Tuples, Tuple{s.first + s.given, s.body(s.given)})
		s.given++
	}
	return nil
}

func (s *madeSource) Close() error { s.closed = true; return nil }

func numbers(k uint64) []byte { return strconv.AppendUint(nil, k, 10) }

func TestFactoryKeepsOrderOfEachConnection(t *testing.T) {
	const n = 5000
	for _, workers := range []int{0, 1, 3} {
		for _, queue := range []int{1, 2, 64} {
			t.Run(fmt.Sprintf("%d workers, queue %d", workers, queue), func(t *testing.T) {
				o := FactoryOptions[uint64]{Workers: workers, Queue: queue, Decode: JSON[uint64]()}
				o.Receiver.Bucket = 7
				for c := range uint64(2) {
					source := &madeSource{first: (c + 1) << countBits, n: n, body: numbers}
					o.Receiver.Sources = append(o.Receiver.Sources, source)
				}
				f, err := NewFactory(o)
				if err != nil {
					t.Fatal(err)
				}
				var wait sync.WaitGroup
				for c := range 2 {
					wait.Go(func() {
						consumer := f.Consumer(c)
						for k := uint64(0); ; k++ {
							object, ok := consumer.Next()
							if !ok {
								if k != n {
									t.Errorf("connection %d: %d objects, want %d", c, k, n)
								}
								return
							}
							if object.Value != k || object.ID != uint64(c+1)<<countBits+k {
								t.Errorf("connection %d: object %d is %+v", c, k, object)
								return
							}
						}
					})
				}
				r, err := f.Run(t.Context())
				wait.Wait()
				if err != nil || r.Objects != 2*n || !r.Whole() || r.Abandoned > 0 {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
	}
}

// Workers decode a connection's tuples at the same time, and not on the thread that receives. In
// this test each worker waits for the other workers.
func TestFactoryDecodesInParallel(t *testing.T) {
	const workers = 3
	var together sync.WaitGroup
	together.Add(workers)
	o := FactoryOptions[uint64]{Workers: workers, Decode: func(body []byte) (uint64, error) {
		if k, err := strconv.ParseUint(string(body), 10, 64); err != nil || k >= workers {
			return k, err
		}
		together.Done()
		together.Wait()
		return 0, nil
	}}
	o.Receiver.Bucket = 1
	o.Receiver.Sources = []Source{&madeSource{first: 1 << countBits, n: 10, body: numbers}}
	f, err := NewFactory(o)
	if err != nil {
		t.Fatal(err)
	}
	r, err := f.Run(t.Context()) // the queues have room for all
	if err != nil || r.Objects != 10 || !r.Whole() {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestFactoryCountsWhatCannotBeDecoded(t *testing.T) {
	var notices []Notice
	o := FactoryOptions[uint64]{Decode: JSON[uint64]()}
	o.Receiver.Notice = func(n Notice) { notices = append(notices, n) }
	body := func(k uint64) []byte {
		if k%10 == 3 {
			return []byte("{broken")
		}
		return numbers(k)
	}
	o.Receiver.Sources = []Source{&madeSource{first: 1 << countBits, n: 100, body: body}}
	f, err := NewFactory(o)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int)
	go func() {
		n := 0
		for c := f.Consumer(0); ; n++ {
			if o, ok := c.Next(); !ok {
				break
			} else if o.Value%10 == 3 {
				t.Errorf("object %+v of a broken tuple", o)
			}
		}
		got <- n
	}()
	r, err := f.Run(t.Context())
	if n := <-got; err != nil || n != 90 || r.Objects != 90 || r.Undecodable != 10 ||
		r.Malformed != 10 || r.Lost != 0 || r.Whole() {
		t.Errorf("%d objects, %+v, %v", n, r, err)
	}
	if len(notices) != 1 || notices[0].Mark != Malformed ||
		!strings.Contains(notices[0].Text, "{broken") || r.Marks[0].Count != 10 {
		t.Errorf("notices %v, marks %v: want the first one said, all counted", notices, r.Marks)
	}
}

// A factory whose run is cancelled ends even if its consumer has stopped. The factory counts the
// objects that the consumer did not take. Before the run is cancelled, the queues are full and the
// connection waits.
func TestFactoryEndsWithoutItsConsumer(t *testing.T) {
	for workers, buckets := range map[int]uint64{
		0: 3, // two in the queue, and one that finds no room
		2: 7, // one in each of four queues, one at each worker, and one at the receiving thread
	} {
		source := &madeSource{first: 1 << countBits, n: 1 << 40, body: numbers}
		o := FactoryOptions[uint64]{Decode: JSON[uint64](), Queue: 2, Workers: workers}
		o.Receiver.Sources = []Source{source}
		f, err := NewFactory(o)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for f.Received() < buckets*64 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		r, err := f.Run(ctx)
		if err != nil || !source.closed || r.FullQueues == 0 || r.Abandoned == 0 ||
			r.Objects+r.Abandoned+r.Undecodable != r.Received {
			t.Errorf("%d workers: %+v, %v", workers, r, err)
		}
		if r.Received != buckets*64 {
			t.Errorf("%d workers: %d tuples were received, and the queues have room for %d",
				workers, r.Received, buckets*64)
		}
		if !has(r.Marks, Interrupted) {
			t.Errorf("marks %v", r.Marks)
		}
	}
}

func TestProtobufDecodes(t *testing.T) {
	body, err := proto.Marshal(durationpb.New(1500 * time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	decode := Protobuf[durationpb.Duration]()
	if d, err := decode(body); err != nil || d.AsDuration() != 1500*time.Millisecond {
		t.Errorf("%v, %v", d, err)
	}
	if _, err := decode([]byte{0xFF}); err == nil {
		t.Error("broken bytes were decoded")
	}
}

func TestSPSCPassesEverythingInOrder(t *testing.T) {
	for _, capacity := range []int{1, 2, 5, 100} {
		q := newSPSC[int](capacity)
		const n = 20_000
		go func() {
			for i := range n {
				if _, ok := q.put(i); !ok {
					t.Error("the queue closed early")
				}
			}
			q.close()
		}()
		for i := range n {
			if v, ok := q.take(); !ok || v != i {
				t.Fatalf("capacity %d: took %d, %t, want %d", capacity, v, ok, i)
			}
		}
		if v, ok := q.take(); ok {
			t.Errorf("took %d after the end", v)
		}
	}
}

func TestSPSCIsBounded(t *testing.T) {
	q := newSPSC[int](4)
	n := 0
	for q.tryPut(n) {
		n++
	}
	if n != 4 {
		t.Errorf("room for %d, want 4", n)
	}
	if v, ok := q.tryTake(); !ok || v != 0 || !q.tryPut(9) || q.tryPut(10) {
		t.Error("one out is room for one")
	}
	q.close()
	if _, ok := q.put(1); ok {
		t.Error("a closed queue took something")
	}
}

func TestLoadTuples(t *testing.T) {
	var lines Tuples
	err := lines.LoadLines(strings.NewReader("{}\n\n[1]\n"))
	if err != nil || lines.Len() != 2 || string(lines.body(1)) != "[1]" {
		t.Errorf("%d, %v", lines.Len(), err)
	}
	var delimited Tuples
	err = delimited.LoadDelimited(strings.NewReader("\x02ab\x01c"))
	if err != nil || delimited.Len() != 2 ||
		string(delimited.body(0)) != "ab" || string(delimited.body(1)) != "c" {
		t.Errorf("%d, %v", delimited.Len(), err)
	}
	for _, bad := range []string{"\x02a", "\x00", "\xff\xff\xff\xff\x0f", "\xff"} {
		if err := (&Tuples{}).LoadDelimited(strings.NewReader(bad)); err == nil {
			t.Errorf("%q was loaded", bad)
		}
	}
	long := strings.Repeat("x", MaxTuple+2)
	if err := (&Tuples{}).LoadLines(strings.NewReader(long)); err == nil {
		t.Error("a line that is too long was loaded")
	}
	if _, err := Advertisements(1, 10, 1); !errors.Is(err, ErrTuple) {
		t.Errorf("%v", err)
	}
}

func BenchmarkSPSC(b *testing.B) {
	q := newSPSC[int](1024)
	go func() {
		for i := range b.N {
			q.put(i)
		}
		q.close()
	}()
	for range b.N {
		q.take()
	}
}
