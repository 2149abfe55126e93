package replay

import (
	"container/heap"
	"errors"
	"io"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// shardFeed is the events of one shard of a ring, in the order of their readings.
type shardFeed struct {
	ring     logstore.Incarnation
	name     channel.Name
	shard    int
	channel  uint32
	segments []logstore.Segment // segments that are not yet read
	logs     *openLogs
	file     *closableLog
	cursor   *logstore.Cursor
	block    []logstore.Event
	damaged  bool
}

// nextEvent returns the next event without taking it. ok is false at the end.
func (f *shardFeed) nextEvent() (e logstore.Event, ok bool, err error) {
	for len(f.block) == 0 {
		if f.file == nil {
			if len(f.segments) == 0 {
				return e, false, nil
			}
			if f.file, err = f.logs.open(f.segments[0].Path); err != nil {
				return e, false, err
			}
			f.segments = f.segments[1:]
			f.cursor = f.file.In(logstore.Events, f.shard)
		}
		b, err := f.cursor.Next()
		var damage *logstore.CorruptionError
		switch {
		case err == io.EOF:
			if err := f.close(); err != nil {
				return e, false, err
			}
			continue
		case errors.As(err, &damage):
			f.damaged = true
			continue
		case err != nil:
			return e, false, err
		}
		f.block = b.Events
		inOrder := func(x, y logstore.Event) int {
			if x.Counter < y.Counter {
				return -1
			}
			if x.Counter > y.Counter {
				return 1
			}
			return 0
		}
		if !slices.IsSortedFunc(f.block, inOrder) {
			slices.SortStableFunc(f.block, inOrder)
		}
	}
	return f.block[0], true, nil
}

func (f *shardFeed) close() error {
	if f.file == nil {
		return nil
	}
	err := f.file.close()
	f.file, f.cursor = nil, nil
	return err
}

// A lane is the events of one node.
type lane struct {
	name    string
	host    string // the node's name without the epoch
	node    uint32
	view    translator
	feeds   []*shardFeed
	waiting feedHeap

	next   rawEvent // the event that follows those in queue
	more   bool
	lastLo uint64
	count  uint64        // number of events so far
	queue  []uint64      // places in the window of events that have no stamp yet
	last   uint64        // place of the last stamped event + 1; 0: none
	known  []knownPrefix // which events of other nodes are before the last stamped event
	lo     uint64        // low end of the last stamped event
	parked bool          // the first of queue waits for the event that sent its message
	sender uint64        // place of the event that sent that message

	messages   []delivery // in the order in which they were received
	deliveries []delivery // those that no event has taken yet
}

// rawEvent is an event as the log has it, with its interval on the reference's counter.
type rawEvent struct {
	logstore.Event
	channel uint32
	at      tscratio.Interval
	suspect bool
}

type feedHeap []*shardFeed

func (h feedHeap) Len() int           { return len(h) }
func (h feedHeap) Less(i, j int) bool { return h[i].block[0].Counter < h[j].block[0].Counter }
func (h feedHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *feedHeap) Push(x any)        { *h = append(*h, x.(*shardFeed)) }
func (h *feedHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

func (l *lane) begin(s *Summary, epsilon uint64) error {
	for _, f := range l.feeds {
		if _, ok, err := f.nextEvent(); err != nil {
			return err
		} else if ok {
			l.waiting = append(l.waiting, f)
		}
	}
	heap.Init(&l.waiting)
	l.sortMessages()
	return l.advance(s, epsilon)
}

// advance reads the next event of the lane. It skips events that have no place on the reference's
// counter.
func (l *lane) advance(s *Summary, epsilon uint64) error {
	for len(l.waiting) > 0 {
		f := l.waiting[0]
		e := f.block[0]
		f.block = f.block[1:]
		if len(f.block) == 0 {
			if _, ok, err := f.nextEvent(); err != nil {
				return err
			} else if !ok {
				heap.Pop(&l.waiting)
			}
		}
		if len(l.waiting) > 1 {
			heap.Fix(&l.waiting, 0)
		}
		at, verdict, err := l.view.Translate(e.Counter)
		if err != nil {
			s.Unplaced++
			continue
		}
		if epsilon > 0 {
			mid := at.Mid()
			at = tscratio.Interval{Lo: mid - min(mid, epsilon/2), Hi: mid + epsilon - epsilon/2}
		}
		// The node's counter runs forwards, so no event can be earlier than the previous event of
		// the lane.
		l.lastLo = max(l.lastLo, at.Lo)
		at.Lo, at.Hi = l.lastLo, max(at.Hi, l.lastLo)
		l.next = rawEvent{e, f.channel, at, verdict == tscratio.Suspect}
		l.more = true
		return nil
	}
	l.more = false
	return nil
}
