package generator

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
)

// An Object is a decoded tuple.
type Object[T any] struct {
	ID    uint64
	Value T
}

// FactoryOptions say how a Factory decodes. Receiver has the options for receiving. The factory
// sets Receiver.Handle itself.
type FactoryOptions[T any] struct {
	Receiver ReceiverOptions
	Decode   Decoder[T]

	// Workers is the number of goroutines that decode the tuples of each connection, in addition to
	// the connection's receiving thread. The workers take buckets (groups of tuples that arrived
	// together) in turn, so that order is kept. If Workers is 0, the receiving thread itself
	// decodes. Then only different connections decode in parallel.
	Workers int
	// Queue is the number of buckets that may wait for the consumer of each connection. The same
	// number may wait for the connection's workers. While a queue is full, the connection waits,
	// and FullQueues counts how often. 0 means 64.
	Queue int
}

// FactoryResult says what a factory received and decoded.
type FactoryResult struct {
	ReceiverResult        // Malformed includes tuples that the decoder refused
	Objects        uint64 // decoded and handed over
	Undecodable    uint64 // tuples that the decoder refused
	FullQueues     uint64 // how often a bucket found a full queue: workers or consumer are slow
	Abandoned      uint64 // objects that were dropped at a full queue when the run was ended
}

// A Factory turns serialised tuples into objects, off the consumer's thread. Each connection has a
// bounded queue of objects, in the order in which its tuples arrived.
//
// Each connection's receiving thread takes tuples in buckets. If there are workers, the thread
// gives the buckets to them in turn, to each worker through its own queue. The consumer takes
// buckets from the workers in the same order. So the order is kept without sequence numbers. Every
// queue has one producer and one consumer.
type Factory[T any] struct {
	o           FactoryOptions[T]
	receiver    *Receiver
	connections []*factoryConnection[T]
	undecodable atomic.Uint64
	fullQueues  atomic.Uint64
	abandoned   atomic.Uint64
	workers     sync.WaitGroup
}

// factoryConnection is the state of one connection.
type factoryConnection[T any] struct {
	deal int // the next lane; only the receiving thread uses it
	Consumer[T]
}

// A lane carries every n-th bucket of a connection that has n lanes. Full buckets pass from the
// receiving thread through the worker to the consumer. Empty buckets pass back.
type lane[T any] struct {
	raw     *spsc[*rawBucket]  // receiving thread to worker; nil without workers
	rawBack *spsc[*rawBucket]  // worker to receiving thread
	ready   *spsc[[]Object[T]] // to the consumer
	back    *spsc[[]Object[T]] // from the consumer
}

// A rawBucket is a bucket of tuples on its way to a worker. It has copies of the tuples, because
// the receiver fills its own bucket again at once.
type rawBucket struct {
	tuples []Tuple
	bytes  []byte
}

// A Consumer takes the objects of one connection. One goroutine uses it.
type Consumer[T any] struct {
	lanes  []*lane[T] // one for each worker; without workers, one
	turn   int
	bucket []Object[T]
	at     int
}

// NewFactory checks the options and makes a factory with one connection for each source. Before
// Run, call Consumer for each connection.
func NewFactory[T any](o FactoryOptions[T]) (*Factory[T], error) {
	if o.Queue == 0 {
		o.Queue = 64
	}
	if o.Decode == nil || o.Workers < 0 || o.Workers > 256 || o.Queue < 1 {
		return nil, fmt.Errorf("object factory: %w: Decode given %t, Workers %d, Queue %d: "+
			"give a Decode, 0 to 256 Workers and a Queue of 1 or more",
			ErrOptions, o.Decode != nil, o.Workers, o.Queue)
	}
	f := &Factory[T]{o: o}
	for range o.Receiver.Sources {
		c := &factoryConnection[T]{}
		lanes := max(1, o.Workers)
		each := max(1, (o.Queue+lanes-1)/lanes)
		for range lanes {
			l := &lane[T]{ready: newSPSC[[]Object[T]](each), back: newSPSC[[]Object[T]](2 * each)}
			if o.Workers > 0 {
				l.raw, l.rawBack = newSPSC[*rawBucket](each), newSPSC[*rawBucket](2*each)
			}
			c.lanes = append(c.lanes, l)
		}
		f.connections = append(f.connections, c)
	}
	receiver := o.Receiver
	receiver.Handle = f.handle
	var err error
	if f.receiver, err = NewReceiver(receiver); err != nil {
		return nil, err
	}
	return f, nil
}

// Consumer returns the consumer of a connection's objects.
func (f *Factory[T]) Consumer(connection int) *Consumer[T] {
	return &f.connections[connection].Consumer
}

// Run receives and decodes until the receiver ends, and then closes the queues. Consumers take the
// remaining objects, and then see the end. If ctx is cancelled, Run drops buckets that find a full
// queue, so that a consumer that has stopped does not block Run.
func (f *Factory[T]) Run(ctx context.Context) (FactoryResult, error) {
	stop := context.AfterFunc(ctx, f.closeReady)
	defer stop()
	for _, c := range f.connections {
		for _, l := range c.lanes {
			if l.raw != nil {
				f.workers.Go(func() { f.work(l) })
			}
		}
	}
	received, err := f.receiver.Run(ctx)
	for _, c := range f.connections {
		for _, l := range c.lanes {
			if l.raw != nil {
				l.raw.close()
			}
		}
	}
	f.workers.Wait()
	f.closeReady()
	r := FactoryResult{
		ReceiverResult: received,
		Undecodable:    f.undecodable.Load(),
		FullQueues:     f.fullQueues.Load(),
		Abandoned:      f.abandoned.Load(),
	}
	r.Malformed += r.Undecodable
	r.Objects = r.Received - r.Undecodable - r.Abandoned
	r.Marks = f.receiver.marks.list()
	return r, err
}

func (f *Factory[T]) closeReady() {
	for _, c := range f.connections {
		for _, l := range c.lanes {
			l.ready.close()
		}
	}
}

// handle takes a received bucket. It runs on the receiving thread of the bucket's connection.
func (f *Factory[T]) handle(connection int, b *Bucket) {
	if len(b.Tuples) == 0 {
		return
	}
	c := f.connections[connection]
	l := c.lanes[c.deal]
	if c.deal++; c.deal == len(c.lanes) {
		c.deal = 0
	}
	if l.raw == nil {
		f.decode(l, b.Tuples)
		return
	}
	raw, ok := l.rawBack.tryTake()
	if !ok {
		raw = &rawBucket{}
	}
	raw.fill(b.Tuples)
	if waited, _ := l.raw.put(raw); waited {
		f.fullQueues.Add(1)
	}
}

func (r *rawBucket) fill(tuples []Tuple) {
	size := 0
	for _, t := range tuples {
		size += len(t.Body)
	}
	if cap(r.bytes) < size {
		r.bytes = make([]byte, 0, size)
	}
	r.tuples, r.bytes = r.tuples[:0], r.bytes[:0]
	for _, t := range tuples {
		begin := len(r.bytes)
		r.bytes = append(r.bytes, t.Body...)
		r.tuples = append(r.tuples, Tuple{t.ID, r.bytes[begin:len(r.bytes):len(r.bytes)]})
	}
}

// work decodes a lane's buckets.
func (f *Factory[T]) work(l *lane[T]) {
	for {
		raw, ok := l.raw.take()
		if !ok {
			return
		}
		f.decode(l, raw.tuples)
		l.rawBack.tryPut(raw)
	}
}

// decode makes objects of a bucket's tuples and puts them into the lane's queue for the consumer.
func (f *Factory[T]) decode(l *lane[T], tuples []Tuple) {
	objects, _ := l.back.tryTake()
	objects = objects[:0]
	for _, t := range tuples {
		v, err := f.o.Decode(t.Body)
		if err != nil {
			f.undecodable.Add(1)
			f.receiver.marks.addMark(Malformed, 1,
				"tuple %d: the decoder refuses it: %v; its body begins with %.40q",
				t.ID, err, t.Body)
			continue
		}
		objects = append(objects, Object[T]{t.ID, v})
	}
	waited, taken := l.ready.put(objects)
	if waited {
		f.fullQueues.Add(1)
	}
	if !taken {
		f.abandoned.Add(uint64(len(objects)))
	}
}

// Next waits for the next object and returns it. ok is false once the connection has ended and all
// its objects were taken.
func (c *Consumer[T]) Next() (o Object[T], ok bool) {
	if c.at < len(c.bucket) {
		c.at++
		return c.bucket[c.at-1], true
	}
	for {
		l := c.lanes[c.turn]
		if c.bucket != nil {
			last := c.lanes[(c.turn+len(c.lanes)-1)%len(c.lanes)]
			clear(c.bucket)
			last.back.tryPut(c.bucket[:0])
			c.bucket = nil
		}
		c.bucket, ok = l.ready.take()
		if !ok {
			c.bucket, c.at = nil, 0
			return o, false
		}
		if c.turn++; c.turn == len(c.lanes) {
			c.turn = 0
		}
		if len(c.bucket) > 0 {
			c.at = 1
			return c.bucket[0], true
		}
	}
}

// Received returns the number of tuples that have arrived so far. Any goroutine may call it.
func (f *Factory[T]) Received() uint64 { return f.receiver.Received() }

// A Decoder makes an object of a serialised tuple. Several goroutines call a Decoder at once. A
// Decoder may not keep a reference to body.
type Decoder[T any] func(body []byte) (T, error)

// JSON decodes with encoding/json.
func JSON[T any]() Decoder[T] {
	return func(body []byte) (v T, err error) {
		err = json.Unmarshal(body, &v)
		return v, err
	}
}

// Protobuf decodes messages of a generated type: Protobuf[pb.Event]() makes *pb.Event.
func Protobuf[T any, M interface {
	*T
	proto.Message
}]() Decoder[M] {
	return func(body []byte) (M, error) {
		v := M(new(T))
		return v, proto.Unmarshal(body, v)
	}
}
