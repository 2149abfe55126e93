package messages

import (
	"errors"
	"fmt"
	"io"
	"math/bits"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// A Log is what one capture has seen on one node.
type Log struct {
	Node  string
	Epoch string
	// Quantum_cycles and CoreSlack_cycles describe the node's counter.
	Quantum_cycles, CoreSlack_cycles uint64

	Messages uint64                     // records of messages
	Lost     map[blackbox.Reason]uint64 // messages that were seen but not logged
	Dropped  uint64                     // events for which the ring or the disk had no room
	Bad      uint64                     // events that do not belong to a valid record
	Missing  string                     // what is wrong with the log; "": nothing

	library  bool   // a library in a program wrote it, and not the agent
	gaps     []gap  // times in which calls were lost
	begun    uint64 // a reading at which the log had begun; 0: it has no calls
	complete bool   // the log began before its programs did

	sockets map[uint64]*socket // by cookie
	numbers map[uint32]*socket
	early   map[uint32][]openCall // messages of sockets without a description yet
	threads map[uint32]*Thread
	unnamed map[uint32]*Thread  // threads without a description yet
	last    map[uint32]lastCall // by thread
	wakes   map[uint32]wake     // by the thread that was woken: the last one
	hosts   map[blackbox.HostName]bool

	store *Store // nil: all calls stay in memory
	err   error  // of the store
}

// lastCall is the last captured call of a thread: its two stamps, and a reading of the counter
// before which it cannot have begun.
type lastCall struct{ lo, hi, from uint64 }

// wake says which thread woke another one, and when.
type wake struct {
	by uint32
	at uint64
}

// A Program is one end of messages.
type Program struct {
	Node string `json:"node"`
	Name string `json:"name"` // "": not known
}

// A Thread is a thread of a program. Number and Process are the kernel's numbers.
type Thread struct {
	Program
	Number  uint32
	Process uint32 // 0: not known
}

// socket is one end of a connection.
type socket struct {
	log             *Log
	of              blackbox.Connection
	sends, receives []end
	moved           *moved // calls that come before those of sends and receives; nil: none
	lossy           bool   // messages of the socket may be missing

	busy  map[uint64]busyTime // by the position after a message that it received
	again []retransmission    // in the order of time
}

// busyTime says for how long the receiving thread did something else while a message waited: for a
// number of cycles, which may be too large or too small by at most the slack.
type busyTime struct{ cycles, slack uint64 }

// A retransmission says that TCP sent bytes of a connection again, at a moment between two readings
// of the counter.
type retransmission struct{ lo, hi, position, after uint64 }

// An end is one end of a message: a call.
type end struct {
	began, ended uint64 // as in blackbox.Message
	// position is the position in a stream. If the message is in no stream, the field has the
	// checksum in the low 32 bits, and Waiting above them.
	position    uint64
	from        uint64 // the call began after this reading, when its thread was in another call
	arrived     uint64 // as in blackbox.Message; 0: not known
	by          *Thread
	woken       uint64 // as in Call
	waker       uint32
	bytes       uint32
	class       uint8 // of the width
	early, sure bool
	single      bool // the position counts messages, not bytes
	placed      bool // the log has the position in a stream
}

func (e *end) after() uint64 {
	if e.single {
		return e.position + 1
	}
	return e.position + uint64(e.bytes)
}

func (e *end) width() uint64 { return blackbox.MinWidth_cycles << e.class }

func (e *end) checksum() uint32 { return uint32(e.position) }

// waitingPieces returns how many pieces waited for the receiver, or -1 if that is not known.
func (e *end) waitingPieces() int {
	if e.placed {
		return -1
	}
	return int(e.position>>32) - 1
}

// earliestBegin returns a reading before which the call cannot have begun.
func (e *end) earliestBegin() uint64 {
	if e.early {
		return e.began
	}
	return e.from
}

type openCall struct {
	kind blackbox.Kind
	end  end
}

// ErrSettings is returned for a log whose channel did not keep every event.
var ErrSettings = errors.New("not every event was kept")

func newLog(node string) *Log {
	return &Log{
		Node: node, Lost: map[blackbox.Reason]uint64{},
		sockets: map[uint64]*socket{}, numbers: map[uint32]*socket{},
		early: map[uint32][]openCall{}, threads: map[uint32]*Thread{},
		unnamed: map[uint32]*Thread{}, last: map[uint32]lastCall{},
		wakes: map[uint32]wake{},
		hosts: map[blackbox.HostName]bool{},
	}
}

// Read reads the segments of one ring.
func Read(node string, segments []logstore.Segment) (*Log, error) {
	return read(node, segments, nil)
}

func read(node string, segments []logstore.Segment, store *Store) (*Log, error) {
	l := newLog(node)
	l.store = store
	r := logstore.ReadLog(segments)
	defer r.Close()
	decoders := map[int]*blackbox.Decoder{} // a ring of many writers has several shards
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		var damage *logstore.CorruptionError
		if errors.As(err, &damage) { // the report has it, and undamaged blocks may follow
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("read captured messages of %q: %w", node, err)
		}
		if of := r.Header().Node; of != node {
			l.Missing = fmt.Sprintf("a log of node %q lies among its logs: it is left out", of)
			return l, nil
		}
		for _, t := range b.Transitions {
			if k := channel.Kind(t.Handler); !k.KeepsAll() {
				return nil, fmt.Errorf("read captured messages of %q: their channel had the "+
					"handler %s: leave channel %q out of the handler table: %w", node, k,
					blackbox.Channel, ErrSettings)
			}
		}
		for _, drop := range b.Drops {
			l.Dropped += drop.Count
			l.addGap(drop.FirstCounter, drop.LastCounter)
		}
		d := decoders[b.Shard]
		if d == nil {
			d = &blackbox.Decoder{}
			decoders[b.Shard] = d
		}
		for _, e := range b.Events {
			l.add(d.Add(blackbox.Event{Counter_cycles: e.Counter, ID: e.ID}))
		}
		if l.err != nil {
			return nil, fmt.Errorf("read captured messages of %q: %w", node, l.err)
		}
	}
	for _, d := range decoders {
		d.End()
		l.Bad += d.Bad
	}
	h, report := r.Header(), r.Report()
	l.Epoch = h.Epoch
	l.library = h.Policy == channel.Drop // the agent blocks
	l.complete = l.library && h.Segment == 0
	l.Quantum_cycles, l.CoreSlack_cycles = h.Quantum_cycles, h.CoreSlack_cycles
	if !report.Whole() {
		l.Missing = `parts of its log are missing or damaged: "cprof log check" names them`
	}
	return l, nil
}

// add handles the next record.
func (l *Log) add(record any) {
	switch v := record.(type) {
	case blackbox.Message:
		l.Messages++
		if l.begun == 0 || v.Ended_cycles < l.begun {
			l.begun = v.Ended_cycles
		}
		e := end{
			began: v.Began_cycles, ended: v.Ended_cycles, position: v.Position,
			bytes: v.Bytes, early: v.Early, sure: v.Sure && v.Stream, placed: v.Stream,
			by: l.threads[v.Thread],
		}
		e.waker, e.woken = l.wakes[v.Thread].by, l.wakes[v.Thread].at
		if v.Arrived {
			e.arrived = v.Arrived_cycles
		}
		if v.Early || v.Arrived {
			e.class = uint8(bits.TrailingZeros64(v.Width_cycles / blackbox.MinWidth_cycles))
		}
		if !v.Stream {
			e.position = uint64(v.Waiting)<<32 | uint64(v.Checksum)
		}
		if e.by == nil { // the description of the thread follows
			e.by = &Thread{Program: Program{Node: l.Node}, Number: v.Thread}
			l.threads[v.Thread], l.unnamed[v.Thread] = e.by, e.by
		}
		l.noteReading(&e)
		if s := l.numbers[v.Connection]; s != nil {
			l.addTo(s, v.Kind, e)
		} else {
			l.early[v.Connection] = append(l.early[v.Connection], openCall{v.Kind, e})
		}
	case blackbox.Connection:
		l.handleConnection(v)
	case blackbox.Thread:
		t := Thread{Program{l.Node, v.Program}, v.Number, v.Process}
		if first := l.unnamed[v.Number]; first != nil {
			*first = t
			delete(l.unnamed, v.Number)
		} else if known := l.threads[v.Number]; known == nil || *known != t {
			l.threads[v.Number] = &t
		}
	case blackbox.HostName:
		l.noteName(v)
	case blackbox.Happening:
		l.noteHappening(&v)
	case blackbox.Loss:
		if v.Reason != blackbox.WakeUp {
			l.Lost[v.Reason] += v.Messages
			l.addGap(v.First_cycles, v.Last_cycles)
		}
	}
}

// noteHappening notes what a record says about a thread or about messages of a socket.
func (l *Log) noteHappening(h *blackbox.Happening) {
	s := l.numbers[h.Connection]
	switch {
	case h.What == blackbox.Woke:
		l.wakes[h.Other] = wake{h.Thread, h.Began_cycles + (h.Ended_cycles-h.Began_cycles)/2}
	case s == nil:
	case h.What == blackbox.Busy:
		if s.busy == nil {
			s.busy = map[uint64]busyTime{}
		}
		s.busy[h.Position] = busyTime{h.Ended_cycles - h.Began_cycles, uint64(h.Slack_cycles)}
	case h.What == blackbox.Retransmitted:
		s.again = append(s.again, retransmission{h.Began_cycles, h.Ended_cycles, h.Position,
			h.Position + uint64(h.Bytes)})
	}
}

// noteReading notes a reading before which a call cannot have begun, because its thread was still
// in another call.
func (l *Log) noteReading(e *end) {
	now := lastCall{lo: e.began, hi: e.ended}
	if e.early {
		now.hi = e.began + e.width()
	}
	switch before := l.last[e.by.Number]; {
	case before.lo == now.lo && before.hi == now.hi: // another record of the same call
		e.from = before.from
	case before.lo <= now.lo && before.hi <= now.hi:
		e.from = before.lo
	}
	now.from = e.from
	l.last[e.by.Number] = now
}

// handleConnection handles a description of a socket. The description holds for the whole log, even
// for messages that come before it.
func (l *Log) handleConnection(c blackbox.Connection) {
	s := l.numbers[c.Number]
	if s != nil && s.of.Cookie == c.Cookie { // a repeated description
		s.of.Peer = max(s.of.Peer, c.Peer)
		s.of.PeerProcess = max(s.of.PeerProcess, c.PeerProcess)
		return
	}
	if s = l.sockets[c.Cookie]; s == nil {
		s = &socket{log: l, of: c}
		l.sockets[c.Cookie] = s
	}
	l.numbers[c.Number] = s
	for _, w := range l.early[c.Number] {
		l.addTo(s, w.kind, w.end)
	}
	delete(l.early, c.Number)
}

func (l *Log) addTo(s *socket, k blackbox.Kind, e end) {
	if k == blackbox.Sent {
		s.sends = append(s.sends, e)
	} else {
		s.receives = append(s.receives, e)
	}
	if l.store != nil && l.err == nil {
		l.err = l.store.keep(s)
	}
}

// isLossy reports whether messages may be missing in the log.
func (l *Log) isLossy() bool {
	return len(l.Lost) > 0 || l.Dropped > 0 || l.Bad > 0 || l.Missing != ""
}
