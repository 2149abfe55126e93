package analysis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// told says what a log contains besides its events.
type told struct {
	report     logstore.Report
	err        error // why the log could not be read to its end
	rows       uint64
	events     uint64 // number of events that were chosen
	poison     uint64
	links      uint64
	disordered uint64
	tooMixed   bool // the ids have too many origins to check the order of each
	changes    int
	thins      string // the rules of handlers that keep only some tuples; empty: there are none
	firstLast  logstore.FirstLast
	samples    samples
	perBin     []uint64
	offAxis    uint64 // events of a related node that are in no bin

	pauses     []logstore.Event // events of a JVM's pauses
	morePauses uint64           // events of pauses beyond maxPauseEvents
}

// scatteredLogs is everything that was read.
type scatteredLogs struct {
	events  *store[logstore.Event]
	returns *store[logstore.Event] // events of return trips; nil: there are none
	byPar   *store[logstore.Link]  // links, by parent
	byKid   *store[logstore.Link]  // links, by child
	told    []told
	links   uint64
}

// partitionBits returns the binary logarithm of the number of partitions. A partition and the index
// of its events should fit into a quarter of a worker's share of the memory.
func partitionBits(events uint64, memory_bytes int64, workers int) uint {
	const gatheredBytes = 32 // an event's size once it is gathered
	share := uint64(memory_bytes) / uint64(workers) / 4
	n := uint(6)
	for n < 14 && events*gatheredBytes>>n > share {
		n++
	}
	return n
}

// scatter reads all logs.
func (in *input) scatter(ctx context.Context, s *scratch, axes []axis) (*scatteredLogs, error) {
	var total, links uint64
	for _, src := range in.sources {
		total += src.events
		links += src.events
	}
	workers := in.workers()
	bitsOf := partitionBits(total, in.options.Memory_bytes, workers)
	if in.options.partitions > 0 {
		bitsOf = uint(in.options.partitions)
	}
	// Chunks that are being filled take at most an eighth of the memory. But a chunk has at least
	// 64 rows, even if more memory is needed for that.
	chunkRows := int(
		min(max(uint64(in.options.Memory_bytes)/8/uint64(workers)>>bitsOf/16, 64), 4096))
	out := &scatteredLogs{
		events: newStore[logstore.Event](s, bitsOf, chunkRows), told: make([]told, len(in.sources)),
	}
	out.byPar, out.byKid = newStore[logstore.Link](s, bitsOf, min(chunkRows, 256)),
		newStore[logstore.Link](s, bitsOf, min(chunkRows, 256))

	if slices.ContainsFunc(in.sources, func(s source) bool {
		return s.trip != noTrip && s.trip != jvmPaused
	}) {
		out.returns = newStore[logstore.Event](s, bitsOf, min(chunkRows, 256))
	}

	var next, done atomic.Int64
	var group sync.WaitGroup
	failed := make([]error, workers)
	for w := range workers {
		group.Go(func() {
			r := &reader{
				in: in, out: out, axes: axes, events: out.events.appender(),
				byPar: out.byPar.appender(), byKid: out.byKid.appender(),
			}
			if out.returns != nil {
				r.returns = out.returns.appender()
			}
			for failed[w] == nil {
				i := int(next.Add(1) - 1)
				if i >= len(in.sources) {
					break
				}
				r.report = func(rows int) {
					in.progress(0.5*float64(done.Add(int64(rows)))/float64(max(total, 1)),
						"reading logs")
				}
				failed[w] = r.source(ctx, i)
			}
			failed[w] = errors.Join(failed[w], r.events.flush(), r.byPar.flush(), r.byKid.flush())
			if r.returns != nil {
				failed[w] = errors.Join(failed[w], r.returns.flush())
			}
		})
	}
	group.Wait()
	for i := range out.told {
		out.links += out.told[i].links
	}
	return out, joinErrors(failed)
}

// joinErrors joins the errors of workers. If one cause, such as a signal, ended several workers,
// its error appears once.
func joinErrors(failed []error) error {
	var told []error
	for _, err := range failed {
		if err != nil && !slices.ContainsFunc(told, func(t error) bool {
			return t.Error() == err.Error()
		}) {
			told = append(told, err)
		}
	}
	return errors.Join(told...)
}

// reader reads one log after another. Only one goroutine may use it.
type reader struct {
	in      *input
	out     *scatteredLogs
	axes    []axis
	events  *appender[logstore.Event]
	returns *appender[logstore.Event] // nil: there are none
	byPar   *appender[logstore.Link]
	byKid   *appender[logstore.Link]
	report  func(rows int)
}

func (r *reader) source(ctx context.Context, i int) error {
	s, t := &r.in.sources[i], &r.out.told[i]
	log := logstore.ReadSegments(s.segments)
	defer log.Close()
	axis := r.axes[s.node]
	t.perBin = make([]uint64, max(axis.count, 1))
	t.noteHandler(s.header.Settings.Kind.String(), s.header.Settings.String())
	orders := map[int]*orderCheck{}
	for {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		b, err := log.Next()
		var damage *logstore.CorruptionError
		switch {
		case err == io.EOF:
			t.report = log.Report()
			return nil
		case errors.As(err, &damage):
			continue
		case err != nil:
			t.err = err
			t.report = log.Report()
			return nil
		}
		t.rows += uint64(b.Len())
		switch {
		case len(b.Events) > 0:
			o := orders[b.Shard]
			if o == nil {
				o = newOrder()
				orders[b.Shard] = o
			}
			r.countBlock(i, t, o, &axis, b.Events)
			r.report(len(b.Events))
		case len(b.Links) > 0:
			if r.in.sources[i].trip != noTrip {
				break // a return trip and a pause have no links: this log is damaged
			}
			for _, l := range b.Links {
				r.byPar.add(l.Parent, int32(i), l)
				r.byKid.add(l.Child, int32(i), l)
			}
			t.links += uint64(len(b.Links))
		case len(b.Samples) > 0:
			t.samples.add(b.Samples)
		case len(b.FirstLasts) > 0:
			t.firstLast = b.FirstLasts[len(b.FirstLasts)-1]
		case len(b.Transitions) > 0:
			t.changes += len(b.Transitions)
			for _, c := range b.Transitions {
				set := c.Settings()
				t.noteHandler(set.Kind.String(), set.String())
			}
		}
		if err := r.written(); err != nil {
			return fmt.Errorf("analyze %q of node %q: %w", s.name, r.in.nodes[s.node].Name, err)
		}
	}
}

func (r *reader) written() error {
	if r.returns != nil && r.returns.err != nil {
		return r.returns.err
	}
	return errors.Join(r.events.err, r.byPar.err, r.byKid.err)
}

func (t *told) noteHandler(kind, settings string) {
	switch {
	case kind == "id" || kind == "buffered" || kind == "link":
	case t.thins == "":
		t.thins = settings
	case !strings.HasSuffix(t.thins, settings):
		t.thins += ", then " + settings
	}
}

// countBlock counts the events of one block and passes them on by id. It may change the
// slice.
func (r *reader) countBlock(source int, t *told, o *orderCheck, axis *axis,
	events []logstore.Event) {
	if r.in.sources[source].trip == jvmPaused {
		some := events[:min(len(events), maxPauseEvents-len(t.pauses))]
		t.pauses = append(t.pauses, some...)
		t.morePauses += uint64(len(events) - len(some))
		return
	}
	a, later := r.events, r.in.choosesLater()
	if r.in.sources[source].trip != noTrip {
		a, later = r.returns, false
	}
	if filter := &r.in.options.Filter; len(filter.IDs) > 0 && !later {
		events = slices.DeleteFunc(events, func(e logstore.Event) bool {
			return e.ID != poison && !filter.id(e.ID)
		})
	}
	// The ids of most events are on the same page (pageBits) as the id of the previous event. All
	// events of one page go through each step together.
	for len(events) > 0 {
		page := events[0].ID >> pageBits
		n := 1
		for n < len(events) && events[n].ID>>pageBits == page {
			n++
		}
		same := events[:n]
		events = events[n:]
		if page == poison>>pageBits {
			same = slices.DeleteFunc(same, func(e logstore.Event) bool { return e.ID == poison })
			t.poison += uint64(n - len(same))
			if len(same) == 0 {
				continue
			}
		}
		if later {
			o.check(t, slices.DeleteFunc(slices.Clone(same), func(e logstore.Event) bool {
				return !r.in.options.Filter.id(e.ID)
			}))
		} else {
			o.check(t, same)
			t.countEvents(axis, same)
		}
		a.addAll(page, int32(source), same)
	}
}

// countEvents counts events that were chosen.
func (t *told) countEvents(axis *axis, events []logstore.Event) {
	t.events += uint64(len(events))
	t.offAxis += axis.tallyBins(t.perBin, events)
}

// tallyBins counts events in the bins of their readings, and returns how many events lie off
// the axis.
func (a *axis) tallyBins(perBin []uint64, events []logstore.Event) (off uint64) {
	if a.count == 0 { // the node is not related, which is reported elsewhere
		return 0
	}
	for i := 0; i < len(events); {
		c := events[i].Counter
		bin, on := a.bin(c)
		if !on {
			off++
			i++
			continue
		}
		from, length := a.binRange(bin, c)
		first := i
		for i++; i < len(events) && events[i].Counter-from < length; i++ {
		}
		perBin[bin] += uint64(i - first)
	}
	return off
}

// originShift reduces an id to its origin: the node and instance that made the id.
const originShift = 40

// maxOrigins is the largest number of origins in one log for which the order of ids is checked.
const maxOrigins = 4096

// orderCheck checks whether ids are logged in the order in which they were made. As RFC 4737
// defines reordering, an id is late if a greater id of the same origin was logged before.
type orderCheck struct {
	// origin is the origin of the previous id. next is the smallest of this origin's ids that would
	// not be late. The map others has, for each other origin, the smallest of its ids that would
	// not be late.
	origin, next uint64
	others       map[uint64]uint64
}

func newOrder() *orderCheck { return &orderCheck{origin: ^uint64(0), others: map[uint64]uint64{}} }

// check checks the events of one page. Ids of one page share all bits above pageBits, and thus the
// bits above originShift. So the events have one origin, which may differ from that of the previous
// page.
func (o *orderCheck) check(t *told, events []logstore.Event) {
	for _, e := range events {
		if e.ID >= o.next && e.ID>>originShift == o.origin {
			o.next = e.ID + 1
		} else {
			o.checkLate(t, e.ID)
		}
	}
}

// checkLate checks an id that is late, or that has another origin than the id before.
func (o *orderCheck) checkLate(t *told, id uint64) {
	origin := id >> originShift
	if origin != o.origin {
		if o.origin != ^uint64(0) {
			o.others[o.origin] = o.next
		}
		next, known := o.others[origin]
		if !known && len(o.others) >= maxOrigins {
			t.tooMixed = true
			o.origin = ^uint64(0)
			return
		}
		o.origin, o.next = origin, next
	}
	if id >= o.next {
		o.next = id + 1
		return
	}
	if id+1 < o.next { // a copy of the greatest id has no greater id before it
		t.disordered++
	}
}

func (in *input) progress(done float64, what string) {
	if in.options.Progress != nil {
		in.options.Progress(min(done, 1), what)
	}
}
