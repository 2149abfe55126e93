package messages

import "github.com/cloudprofiler/cloudprofiler/blackbox"

// A Socket is one captured end of a connection.
type Socket struct {
	Log      *Log
	Of       *blackbox.Connection
	Other    *Socket // the other end; nil: not known
	Sends    Sequence
	Receives Sequence
}

// Sockets returns all sockets that are connected. In TCP and UNIX sockets, the field Other is set
// if the other end is known. In sockets of other kinds, the calls are in the order of the stamps.
// Afterwards the logs no longer have the calls of sockets that are not connected.
func Sockets(logs []*Log) []*Socket {
	sockets, _ := mergeSockets(logs)
	otherEnd := findOtherEnd(sockets)
	others := peersOf(sockets)
	for _, s := range sockets {
		if !s.isTCP() {
			continue
		}
		if other := otherEnd(s); other != nil {
			others[s] = other
		}
	}
	var all []*Socket
	of := map[*socket]*Socket{}
	for _, s := range sockets {
		s.busy, s.again = nil, nil
		if s.isTCP() || s.of.Family == blackbox.UNIX || s.of.Remote.Port() != 0 {
			of[s] = &Socket{Log: s.log, Of: &s.of, Sends: Sequence{of: s},
				Receives: Sequence{of: s, receives: true}}
			all = append(all, of[s])
		} else {
			s.sends, s.receives, s.moved = nil, nil, nil
		}
	}
	for s, other := range others {
		of[s].Other = of[other]
	}
	return all
}

// Err returns why calls of the socket could not be read, or nil.
func (k *Socket) Err() error {
	if s := k.Sends.of; s != nil && s.moved != nil {
		return s.moved.store.err
	}
	return nil
}

// peersOf returns the other ends of UNIX sockets, which it finds by the kernel's cookies. Two
// sockets count as the ends of one connection only if each received as many bytes as the other
// sent. Then no datagram was lost, and the capture has seen both sockets from the same byte on.
func peersOf(sockets []*socket) map[*socket]*socket {
	find := unixPeers(sockets)
	peers := map[*socket]*socket{}
	for _, s := range sockets {
		if s.of.Family != blackbox.UNIX {
			continue
		}
		other := find(s)
		if other == nil {
			continue
		}
		sent, received := s.sizes()
		if otherSent, got := other.sizes(); sent != got || received != otherSent {
			continue
		}
		peers[s], peers[other] = other, s
	}
	return peers
}

func bytesOf(calls []end) (n uint64) {
	for i := range calls {
		n += uint64(calls[i].bytes)
	}
	return n
}

// A Sequence has the calls that one end of a connection sent, or those that it received, in the
// order of their bytes. The calls need not fit into memory.
type Sequence struct {
	list     []Call // if of is nil
	of       *socket
	receives bool
	exact    *exactness // nil: not known yet
}

// SequenceOf returns a sequence of the given calls.
func SequenceOf(all []Call) Sequence { return Sequence{list: all} }

// Len returns the number of calls.
func (q *Sequence) Len() int {
	if q.of == nil {
		return len(q.list)
	}
	sends, receives := q.of.counts()
	if q.receives {
		return receives
	}
	return sends
}

// A Reader reads a sequence. It begins at the first call. If a call cannot be read, the reader is
// at the end of the sequence, and Socket.Err returns the reason.
type Reader struct {
	Call Call // the call at which the reader is
	Done bool // the reader is at the end, so there is no call

	list  []Call
	ends  *endReader
	exact exactness
	at    uint64 // the position of the next call, if calls have no position of their own
}

// Read returns a reader.
func (q *Sequence) Read() *Reader {
	r := &Reader{list: q.list}
	if q.of != nil {
		if q.exact == nil {
			q.exact = &exactness{lossy: q.of.lossy}
			all := &Reader{ends: q.of.readEnds(q.receives)}
			for e := all.nextEnd(); e != nil; e = all.nextEnd() {
				q.exact.add(e)
			}
			q.exact.recent = nil
		}
		r.ends, r.exact = q.of.readEnds(q.receives), *q.exact
	}
	r.Next()
	return r
}

// Next goes to the next call.
func (r *Reader) Next() {
	if r.ends == nil {
		if r.Done = len(r.list) == 0; !r.Done {
			r.Call, r.list = r.list[0], r.list[1:]
		}
		return
	}
	e := r.nextEnd()
	if r.Done = e == nil; !r.Done {
		r.Call = e.call(r.ends.of, r.exact.next(e))
	}
}

// nextEnd returns the next call, or nil. A call of a UNIX or UDP socket gets a position: the bytes
// have the order of the calls.
func (r *Reader) nextEnd() *end {
	e := r.ends.next()
	if e != nil && !r.ends.of.isTCP() {
		e.position, e.sure = r.at, true
		r.at += uint64(e.bytes)
	}
	return e
}

// exactness finds out which calls of a sequence are exact. A call is exact if it is exactly known
// which bytes it moved. All calls are added first. Then the method next says for each call, in the
// same order, whether it is exact.
//
// If the place of a call in the stream is not sure, the logged place may be too late, by the bytes
// that other threads sent or received in between. But suppose that no message was lost, and that
// from some call on all calls follow each other without a gap or an overlap. Then none of their
// places is too late: otherwise the last bytes of the stream would belong to no call. This proves
// nothing about two kinds of calls: the last call, because another one that followed it may not
// have ended when the capture ended, and a call that may have begun before the capture.
type exactness struct {
	lossy  bool
	number int
	chain  int         // from this call on, calls follow each other
	recent []uint64    // where the latest calls end
	shared []sharedRun // calls that overlap with others
	at     int         // the next call, for the method next
}

// A sharedRun names calls by the number of the first and of the last.
type sharedRun struct{ from, to int }

// exactness remembers where calls end, but only for the last mostRecent calls. If a call overlaps
// with more calls than that, all calls before it count as not exact.
const mostRecent = 1 << 12

// add adds the next call. The calls come in the order of their last bytes.
func (x *exactness) add(e *end) {
	n := len(x.recent)
	switch {
	case n == 0:
	case x.recent[n-1] > e.position:
		at := n - 1
		for at > 0 && x.recent[at-1] > e.position {
			at--
		}
		from := x.number - n + at
		if at == 0 {
			from = 0
		}
		for k := len(x.shared); k > 0 && x.shared[k-1].to >= from; k-- {
			from = min(from, x.shared[k-1].from)
			x.shared = x.shared[:k-1]
		}
		x.shared = append(x.shared, sharedRun{from, x.number})
		x.chain = x.number + 1
	case x.recent[n-1] < e.position:
		x.chain = x.number
	}
	if n == 2*mostRecent {
		x.recent = append(x.recent[:0], x.recent[mostRecent:]...)
	}
	x.recent = append(x.recent, e.after())
	x.number++
}

// next reports whether the next call is exact.
func (x *exactness) next(e *end) bool {
	i := x.at
	x.at++
	for len(x.shared) > 0 && x.shared[0].to < i {
		x.shared = x.shared[1:]
	}
	if len(x.shared) > 0 && x.shared[0].from <= i {
		return false
	}
	return e.sure || !x.lossy && i >= x.chain && i < x.number-1 && e.earliestBegin() > 0
}
