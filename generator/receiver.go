package generator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
)

// ReceiverOptions say how to receive.
type ReceiverOptions struct {
	Sources []Source // one for each connection; each has a thread of its own

	// Senders is the number of sending threads that use each connection. A connection is done when
	// it has received an end from each of these threads. 0 means 1.
	Senders int
	// Bucket is the largest number of messages that a thread takes at a time. 0 means 64.
	Bucket int
	// Silence is how long a connection, after its first tuple, may deliver nothing before the
	// thread gives the connection up. 0 means 5 s. If the thread itself took nothing for a while,
	// it waits longer, by twice that while: TCP may notice as late that there is room again.
	Silence time.Duration
	// Patience is how long to wait for the first tuple. 0 waits for ever.
	Patience time.Duration

	// Log contains the options for channel receiver#C/recv of each connection C. nil opens no
	// channel.
	Log *handlers.Options

	// Handle is called with every bucket, on its connection's thread, after the ids were checked.
	// Handle may use the bucket only until it returns.
	Handle func(connection int, b *Bucket)

	// Notice is called as soon as a mark is first made, from any goroutine. It may be nil.
	Notice func(Notice)
}

// ReceiverResult says what a receiver received.
type ReceiverResult struct {
	Check
	Elapsed time.Duration // from the first tuple to the last
	Rate    float64       // tuples a second in that time
	Marks   []Marked
	Drops   string // why a channel could not be opened; "" if all were
}

// A Receiver takes tuples from connections. It checks that every id arrives once and in order.
type Receiver struct {
	o        ReceiverOptions
	threads  []*receiveThread
	received atomic.Uint64
	marks    Marks
	drops    string
}

// receiveThread is the thread of one connection. Its fields that are not atomic belong to its
// goroutine until Run has returned.
type receiveThread struct {
	checker
	number      int
	source      Source
	recv        *handlers.Channel
	first, last time.Time
	paused      time.Duration // the longest time from the end of a Receive to that of the next
}

// NewReceiver checks the options and opens the channels.
func NewReceiver(o ReceiverOptions) (*Receiver, error) {
	o.Senders, o.Bucket = cmp.Or(o.Senders, 1), cmp.Or(o.Bucket, 64)
	o.Silence = cmp.Or(o.Silence, 5*time.Second)
	if len(o.Sources) == 0 || o.Senders < 1 || o.Bucket < 1 || o.Silence < 0 || o.Patience < 0 {
		return nil, fmt.Errorf("receive: %w: %d Sources, Senders %d, Bucket %d, Silence %s, "+
			"Patience %s: give a source, and no negative number",
			ErrOptions, len(o.Sources), o.Senders, o.Bucket, o.Silence, o.Patience)
	}
	r := &Receiver{o: o}
	r.marks.notice = o.Notice
	for i, source := range o.Sources {
		t := &receiveThread{number: i, source: source}
		if o.Log != nil {
			var err error
			if t.recv, err = handlers.Open(fmt.Sprintf("receiver#%d/recv", i), *o.Log); err != nil {
				r.drops = err.Error()
			}
		}
		r.threads = append(r.threads, t)
	}
	return r, nil
}

// Received returns the number of tuples that have arrived so far. Any goroutine may call it.
func (r *Receiver) Received() uint64 { return r.received.Load() }

// Run receives until every connection has delivered its ends or has fallen silent, or until ctx is
// cancelled. Then it closes the sources.
func (r *Receiver) Run(ctx context.Context) (ReceiverResult, error) {
	var wait sync.WaitGroup
	errs := make([]error, len(r.threads))
	for i, t := range r.threads {
		wait.Go(func() { errs[i] = r.run(ctx, t) })
	}
	wait.Wait()
	return r.result(ctx.Err() != nil), errors.Join(errs...)
}

func (r *Receiver) run(ctx context.Context, t *receiveThread) error {
	defer t.recv.Close()
	defer t.source.Close()
	defer func() { r.marks.notLogged(t.recv.Dropped()) }()
	var b Bucket
	begun, ended, quiet := time.Now(), 0, false
	before := begun
	for ended < r.o.Senders && ctx.Err() == nil {
		if err := t.source.Receive(&b, r.o.Bucket); err != nil {
			return fmt.Errorf("receive: connection %d: %w", t.number, err)
		}
		now := time.Now()
		t.paused, before = max(t.paused, now.Sub(before)), now
		if len(b.Tuples)+len(b.Ends)+len(b.Malformed) == 0 {
			if r.givesUp(t, now, now.Sub(begun), &quiet) {
				return nil
			}
			continue
		}
		if quiet {
			quiet = false
			r.marks.sendNotice(SenderGone, "connection %d: tuples come again, after %.1f s",
				t.number, now.Sub(t.last).Seconds())
		}
		for _, tuple := range b.Tuples {
			t.recv.Log(tuple.ID)
			t.see(tuple.ID)
		}
		if len(b.Tuples) > 0 {
			if t.first.IsZero() {
				t.first = now
			}
			t.last = now
			r.received.Add(uint64(len(b.Tuples)))
		}
		for _, err := range b.Malformed {
			t.malformed++
			r.marks.addMark(Malformed, 1, "connection %d: %v: it was dropped whole", t.number, err)
		}
		for _, e := range b.Ends {
			t.noteEnd(e)
			ended++
		}
		if r.o.Handle != nil {
			r.o.Handle(t.number, &b)
		}
	}
	return nil
}

// quietNotice is how long a connection may deliver nothing before a notice reports that.
const quietNotice = time.Second

// givesUp reports whether to give up a connection that delivers nothing.
func (r *Receiver) givesUp(
	t *receiveThread, now time.Time, waited time.Duration, quiet *bool,
) bool {
	if t.first.IsZero() {
		if r.o.Patience > 0 && waited > r.o.Patience {
			r.marks.addMark(SenderGone, 1, "connection %d: nothing came in %s", t.number,
				r.o.Patience)
			return true
		}
		return false
	}
	silent, limit := now.Sub(t.last), r.o.Silence+2*t.paused
	if silent > limit {
		r.marks.addMark(SenderGone, 1, "connection %d: nothing came for %s, and no end: "+
			"the sender died, or the network is cut", t.number, limit.Round(time.Millisecond))
		return true
	}
	if silent > quietNotice && !*quiet {
		*quiet = true
		r.marks.sendNotice(SenderGone,
			"connection %d: nothing came for %.0f s; giving it up after %s",
			t.number, silent.Seconds(), limit.Round(time.Millisecond))
	}
	return false
}

func (r *Receiver) result(interrupted bool) ReceiverResult {
	var first, last time.Time
	result := ReceiverResult{Drops: r.drops}
	for _, t := range r.threads {
		result.Check = result.plus(t.check())
		if !t.first.IsZero() && (first.IsZero() || t.first.Before(first)) {
			first = t.first
		}
		if t.last.After(last) {
			last = t.last
		}
	}
	if result.Elapsed = last.Sub(first); result.Elapsed > 0 {
		result.Rate = float64(result.Received) / result.Elapsed.Seconds()
	}
	r.marks.addMark(Lost, result.Lost, "%d tuples did not arrive", result.Lost)
	r.marks.addMark(Duplicated, result.Duplicates,
		"%d tuples arrived more than once", result.Duplicates)
	if interrupted {
		r.marks.addMark(Interrupted, 1, "the run was interrupted")
	}
	result.Marks = r.marks.list()
	return result
}
