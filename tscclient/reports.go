package tscclient

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// maxReports is the number of reports that may wait for an acknowledgement. maxCollected is the
// largest number of the client's own trains in one report. A report with maxCollected trains of
// five exchanges each has some 30 kB.
const (
	maxReports   = 2000
	maxCollected = 200
)

// waitingReports keeps measurements until the server acknowledges that it has stored them. Any
// goroutine may use it.
type waitingReports struct {
	transmit func(context.Context, *control.Trains) error

	sending sync.Mutex // allows one send at a time, in order

	mu        sync.Mutex
	last      uint64 // number of the newest report
	dropped   uint64
	collected map[pairKey]*control.Trains // trains that are not in a report yet
	unsent    []*control.Trains           // reports that must be sent, or sent again
	sent      []*control.Trains           // reports that were sent but not acknowledged
}

func newReports(transmit func(context.Context, *control.Trains) error) *waitingReports {
	return &waitingReports{transmit: transmit, collected: map[pairKey]*control.Trains{}}
}

// reportBatch reports a batch that an order requested. An acknowledgement concerns all reports up
// to a number, so reportBatch first sends all reports with smaller numbers. If that fails, the new
// report waits with the others, and the order gets no answer.
func (r *waitingReports) reportBatch(ctx context.Context, m *control.Trains, transmit func()) {
	r.sending.Lock()
	defer r.sending.Unlock()
	r.sendUnsent(ctx)
	r.mu.Lock()
	r.numbered(m)
	first := len(r.unsent) == 0
	if first {
		r.sent = append(r.sent, m)
	} else {
		r.unsent = append(r.unsent, m)
	}
	r.makeRoom()
	r.mu.Unlock()
	if first {
		transmit()
	}
}

func (r *waitingReports) numbered(m *control.Trains) *control.Trains {
	r.last++
	m.Report, m.Dropped = r.last, r.dropped
	return m
}

// collectTrain adds a train that the client ran on its own to the collected trains of its pair.
func (r *waitingReports) collectTrain(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := pairKey{o.Epoch, o.Peer.Node.Name, o.Peer.Node.Epoch}
	m := r.collected[key]
	if m == nil {
		m = &control.Trains{Peer: key.peer, PeerEpoch: key.peerEpoch, Epoch: key.epoch}
		r.collected[key] = m
	}
	m.Lost += o.Train.Counts.Lost
	if o.Err != nil {
		m.Error = control.Cut(o.Err.Error())
		return
	}
	m.Trains = append(m.Trains, reported(o.Train))
	reportedMeetings(m, o.Train)
	if o.SharedClock != "" {
		m.SharedClock = control.Cut(o.SharedClock)
	}
	if len(m.Trains) == maxCollected {
		r.makeReport(key)
	}
}

// makeReport turns the collected trains of one pair into a report.
func (r *waitingReports) makeReport(key pairKey) {
	r.unsent = append(r.unsent, r.numbered(r.collected[key]))
	delete(r.collected, key)
	r.makeRoom()
}

// makeRoom drops the oldest reports if there are more than maxReports.
func (r *waitingReports) makeRoom() {
	for len(r.sent)+len(r.unsent) > maxReports {
		if len(r.sent) > 0 {
			r.sent = r.sent[1:]
		} else {
			r.unsent = r.unsent[1:]
		}
		r.dropped++
	}
}

// sendAll makes reports of all collected trains, and sends the waiting reports in order until
// sending fails. If nobody would receive the reports (listening is false), it does nothing. As long
// as listening is false, only the method collectTrain makes reports, of maxCollected trains each.
func (r *waitingReports) sendAll(ctx context.Context, listening bool) {
	if !listening {
		return
	}
	r.sending.Lock()
	defer r.sending.Unlock()
	r.mu.Lock()
	for _, key := range slices.SortedFunc(maps.Keys(r.collected), comparePairKeys) {
		r.makeReport(key)
	}
	r.mu.Unlock()
	r.sendUnsent(ctx)
}

// sendUnsent sends the waiting reports. The caller must have locked r.sending.
func (r *waitingReports) sendUnsent(ctx context.Context) {
	for {
		r.mu.Lock()
		if len(r.unsent) == 0 {
			r.mu.Unlock()
			return
		}
		m := r.unsent[0]
		r.mu.Unlock()
		if err := r.transmit(ctx, m); err != nil {
			return // the next call tries again
		}
		r.mu.Lock()
		if len(r.unsent) > 0 && r.unsent[0] == m {
			r.unsent = r.unsent[1:]
			r.sent = append(r.sent, m)
		}
		r.mu.Unlock()
	}
}

// dropAcknowledged drops the reports up to and including a number.
func (r *waitingReports) dropAcknowledged(number uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	has := func(m *control.Trains) bool { return m.Report <= number }
	r.sent = slices.DeleteFunc(r.sent, has)
	r.unsent = slices.DeleteFunc(r.unsent, has)
}

// sendAgain queues every unacknowledged report to be sent again, because the server may be a new
// process.
func (r *waitingReports) sendAgain() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsent = append(r.sent, r.unsent...)
	r.sent = nil
	slices.SortFunc(r.unsent, func(x, y *control.Trains) int {
		return cmp.Compare(x.Report, y.Report)
	})
}

func (r *waitingReports) count() (kept, dropped uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return uint64(len(r.sent) + len(r.unsent)), r.dropped
}

func comparePairKeys(x, y pairKey) int {
	return cmp.Or(cmp.Compare(x.peer, y.peer), cmp.Compare(x.peerEpoch, y.peerEpoch),
		cmp.Compare(x.epoch, y.epoch))
}
