package tscclient

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
)

// In a large fleet, some nodes collect the logs of others. Each node offers its logs of a run as an
// item of a queue (package overlay). Collectors, which the server names, take items and fetch the
// files.

// logsQueue is the name of the queue of logs. The text of an item is the name of a run.
const logsQueue = "logs"

// Work is an item that a collector has taken: the logs of one node. The node gives them to nobody
// else while the collector works on them.
type Work struct {
	Node, Run string
	item      overlay.Item
}

// offeredParts is what this node offers to collectors, and what it waits for from others.
type offeredParts struct {
	mu         sync.Mutex
	run        string   // the run whose logs are offered
	collectors []string // the nodes that may take them
	waiting    map[uint64]chan wire.Part
	reading    int // Fetches that are being answered
}

// maxReading is how many Fetches a node answers at the same time. Each reads from the disk.
const maxReading = 8

// errFetch is returned by Fetch if the node refuses to send the file.
var errFetch = errors.New("node does not give the file away")

// Offer puts this node's logs of a run into the queue, for the collectors with the given names. The
// logs of an earlier run are not offered any more. Without a graph, the error wraps ErrNoGraph.
func (l *Link) Offer(ctx context.Context, run string, collectors []string) error {
	_, err := askGraph(ctx, l, func(answer func(bool, error)) {
		g := l.graph
		if g.node == nil {
			answer(false, ErrNoGraph)
			return
		}
		g.offers.mu.Lock()
		before := g.offers.run
		g.offers.run, g.offers.collectors = run, slices.Clone(collectors)
		g.offers.mu.Unlock()
		if before != run {
			g.node.Withdraw(g.graphTime(), logsQueue, before)
		}
		answer(true, g.node.Put(g.graphTime(), logsQueue, run))
	})
	if err != nil {
		return fmt.Errorf("offer logs of run %q: %w", run, err)
	}
	return nil
}

// mayTake reports whether the graph may give one of this node's items to another node, the taker.
func (g *graphPart) mayTake(_ string, taker overlay.Name) bool {
	g.offers.mu.Lock()
	defer g.offers.mu.Unlock()
	return g.offers.isFor(taker)
}

// isFor reports whether a node is one of the collectors. The caller must have locked o.mu.
func (o *offeredParts) isFor(taker overlay.Name) bool {
	card, err := wire.ParseName(taker)
	return err == nil && slices.Contains(o.collectors, card.Node)
}

// Take takes the logs of any node that offers them. If ok is false, none was found.
func (l *Link) Take(ctx context.Context) (w Work, ok bool, err error) {
	i, err := askGraph(ctx, l, func(answer func(*overlay.Item, error)) {
		if l.graph.node == nil {
			answer(nil, ErrNoGraph)
			return
		}
		err := l.graph.node.Take(l.graph.graphTime(), logsQueue, func(i overlay.Item, ok bool) {
			if !ok {
				answer(nil, nil)
				return
			}
			answer(&i, nil)
		})
		if err != nil {
			answer(nil, err)
		}
	})
	if err != nil || i == nil {
		return Work{}, false, err
	}
	card, err := wire.ParseName(i.Maker)
	return Work{card.Node, i.Text, *i}, err == nil, err
}

// Finish ends the work. The caller says whether it has fetched all logs (done). If it has not, the
// logs stay in the queue for another collector. Finish reports whether this collector is the one
// that finished the work.
func (l *Link) Finish(ctx context.Context, w Work, done bool) (bool, error) {
	return askGraph(ctx, l, func(answer func(bool, error)) {
		l.graph.node.Finish(l.graph.graphTime(), w.item, done, func(ok bool) { answer(ok, nil) })
	})
}

// fetchRetry is the time after which a node is asked again for the bytes that did not arrive.
// fetchTries is the largest number of such requests in a row without a new part of the file.
const (
	fetchRetry = 300 * time.Millisecond
	fetchTries = 20
)

// Fetch reads a part of a file of the node whose logs the collector has taken, and returns the size
// of the whole file. File 0 is the list of the other files. At the end of the file, the part is
// shorter than the buffer.
func (l *Link) Fetch(ctx context.Context, w Work, file int, offset int64,
	into []byte) (n int, size int64, err error) {
	into = into[:min(len(into), wire.MaxFetch)]
	fail := func(why error) (int, int64, error) {
		return 0, 0, fmt.Errorf("fetch file %d of run %q from node %q: %w", file, w.Run, w.Node,
			why)
	}
	o := &l.graph.offers
	id := rand.Uint64()
	parts := make(chan wire.Part, wire.MaxFetch/wire.MaxPart)
	o.mu.Lock()
	if o.waiting == nil {
		o.waiting = map[uint64]chan wire.Part{}
	}
	o.waiting[id] = parts
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		delete(o.waiting, id)
		o.mu.Unlock()
	}()
	tries, want := 0, len(into)
	here := make([]bool, (len(into)+wire.MaxPart-1)/wire.MaxPart)
	for n < want {
		first := slices.Index(here, false) * wire.MaxPart
		l.graph.socket.SendAny(w.item.Maker, wire.Fetch{ID: id, Run: w.Run, File: file,
			Offset: uint64(offset) + uint64(first), Bytes: want - first})
		timer := time.NewTimer(fetchRetry)
		for late := false; n < want && !late; {
			select {
			case <-ctx.Done():
				timer.Stop()
				return fail(ctx.Err())
			case <-l.ctx.Done():
				timer.Stop()
				return fail(ErrClosed)
			case <-timer.C:
				late = true
			case p := <-parts:
				if !p.OK {
					timer.Stop()
					return fail(fmt.Errorf("%w: %q", errFetch, p.Data))
				}
				at := int64(p.Offset) - offset
				size = int64(p.Size)
				want = int(min(int64(want), max(size-offset, 0)))
				i := int(at / wire.MaxPart)
				if at < 0 || at%wire.MaxPart != 0 || at+int64(len(p.Data)) > int64(want) ||
					i >= len(here) || here[i] || len(p.Data) == 0 ||
					len(p.Data) != min(wire.MaxPart, want-int(at)) {
					continue
				}
				here[i] = true
				n += copy(into[at:], p.Data)
				tries = 0
			}
		}
		timer.Stop()
		if tries++; tries > fetchTries {
			return fail(errors.New("it does not answer"))
		}
	}
	return n, size, nil
}

// passPart passes a part to the Fetch that waits for it.
func (g *graphPart) passPart(p wire.Part) {
	g.offers.mu.Lock()
	defer g.offers.mu.Unlock()
	select {
	case g.offers.waiting[p.ID] <- p:
	default: // nobody waits for the part, or too many parts wait already
	}
}

// answerFetch answers a Fetch in another goroutine, because it reads from the disk.
func (g *graphPart) answerFetch(to overlay.Name, m wire.Fetch) {
	o := &g.offers
	o.mu.Lock()
	defer o.mu.Unlock()
	read := g.link.config.ReadFile
	if o.reading >= maxReading { // the other node asks again
		return
	}
	if read == nil || m.Run != o.run || !o.isFor(to) {
		g.socket.SendAny(to, wire.Part{ID: m.ID,
			Data: []byte("run " + m.Run + " is not offered to this node")})
		return
	}
	o.reading++
	g.link.running.Go(func() {
		b := make([]byte, min(m.Bytes, wire.MaxFetch))
		n, size, err := read(m.Run, m.File, int64(min(m.Offset, 1<<62)), b)
		o.mu.Lock()
		o.reading--
		o.mu.Unlock()
		p := wire.Part{ID: m.ID, Offset: m.Offset, Size: uint64(size), OK: err == nil}
		if err != nil || n == 0 {
			if err != nil {
				text := err.Error()
				p.Data = []byte(text[:min(len(text), wire.MaxPart)])
			}
			g.socket.SendAny(to, p)
			return
		}
		for part := range slices.Chunk(b[:n], wire.MaxPart) {
			p.Data = part
			g.socket.SendAny(to, p)
			p.Offset += uint64(len(part))
		}
	})
}
