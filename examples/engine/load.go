package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/generator"
)

// A Load offers events to an engine's sources, and hears from the engine which events it has
// finished.
//
// A source connects to Port and reads events as lines of JSON. The first field of a line is the
// event's id. The operator that does the last work on an event connects to BackPort and writes the
// id as a line. Every engine can do both without additional software. Any number of goroutines may
// call the methods of a Load.
type Load struct {
	Port, BackPort int

	done      func(ids ...uint64) // may be nil
	listeners [2]net.Listener
	sources   chan *net.TCPConn // sources that no sink has taken yet

	mu       sync.Mutex
	ended    bool
	returns  []net.Conn // connections to BackPort
	sessions sync.WaitGroup
}

// mostSources is how many connected sources may wait for a sink. Any further source is
// disconnected.
const mostSources = 64

// Listen waits for an engine's sources. The function done may be nil.
func Listen(done func(ids ...uint64)) (*Load, error) {
	l := &Load{done: done, sources: make(chan *net.TCPConn, mostSources)}
	for i, port := range []*int{&l.Port, &l.BackPort} {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			l.Close()
			return nil, fmt.Errorf("listen for the engine's sources: %w", err)
		}
		l.listeners[i], *port = listener, listener.Addr().(*net.TCPAddr).Port
		take := l.source
		if i == 1 {
			take = l.back
		}
		l.sessions.Go(func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return // the listener was closed
				}
				take(conn)
			}
		})
	}
	return l, nil
}

func (l *Load) source(conn net.Conn) {
	select {
	case l.sources <- conn.(*net.TCPConn):
	default:
		conn.Close()
	}
}

func (l *Load) back(conn net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		conn.Close()
		return
	}
	l.returns = append(l.returns, conn)
	l.sessions.Go(func() { l.readIDs(conn) })
}

// readIDs passes on the ids that an engine writes. It ignores a line that is not an id. The event
// of such a line is then missing, and whoever counts the events sees that.
func (l *Load) readIDs(r io.Reader) {
	var ids []uint64
	b := make([]byte, 1<<16)
	for kept := 0; ; {
		n, err := r.Read(b[kept:])
		rest := b[:kept+n]
		ids = ids[:0]
		for {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole {
				break
			}
			if id, err := strconv.ParseUint(string(line), 10, 64); err == nil {
				ids = append(ids, id)
			}
			rest = after
		}
		if len(ids) > 0 && l.done != nil {
			l.done(ids...)
		}
		if err != nil || len(rest) == len(b) {
			return
		}
		kept = copy(b, rest)
	}
}

// Connected waits until n sources have connected.
func (l *Load) Connected(ctx context.Context, n int) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for len(l.sources) < n {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the engine's sources: %d of %d have connected: %w",
				len(l.sources), n, context.Cause(ctx))
		case <-tick.C:
		}
	}
	return nil
}

// Connect makes the sink of a sending thread. The sink sends to one source. If the connection to
// that source breaks, the sink sends to the next source that connects.
func (l *Load) Connect(int) (generator.Sink, error) { return &sink{load: l}, nil }

// Close ends all connections.
func (l *Load) Close() {
	for _, listener := range l.listeners {
		if listener != nil {
			listener.Close()
		}
	}
	l.mu.Lock()
	l.ended = true
	for _, conn := range l.returns {
		conn.Close()
	}
	l.mu.Unlock()
	l.sessions.Wait()
	for {
		select {
		case conn := <-l.sources:
			conn.Close()
		default:
			return
		}
	}
}

// A sink sends events to a source. Its method Send never waits for the source. If the connection
// has no room, the sink refuses events, and the sender counts them.
type sink struct {
	load *Load
	conn *net.TCPConn    // nil: no source is connected
	raw  syscall.RawConn // raw access to conn
	// the rest of the events that were taken, for which conn had no room
	unsentRest []byte
}

// Send takes all events if the connection has taken all earlier ones. Otherwise it takes none.
func (s *sink) Send(events []generator.Tuple) (taken int, err error) {
	if !s.connected() || !s.flushRest() {
		return 0, nil
	}
	for _, e := range events {
		s.unsentRest = appendLine(s.unsentRest, e)
	}
	s.flushRest()
	return len(events), nil
}

// appendLine appends an event as a line of JSON. The body of an event lacks the beginning of the
// JSON object, which appendLine adds together with the id.
func appendLine(b []byte, e generator.Tuple) []byte {
	b = append(b, `{"id":`...)
	b = strconv.AppendUint(b, e.ID, 10)
	b = append(append(b, ','), e.Body...)
	return append(b, '\n')
}

func (s *sink) connected() bool {
	if s.conn != nil {
		return true
	}
	select {
	case s.conn = <-s.load.sources:
	default:
		return false
	}
	var err error
	if s.raw, err = s.conn.SyscallConn(); err != nil {
		s.dropConnection()
		return false
	}
	return true
}

// dropConnection closes a connection, and drops the rest of the events for it.
func (s *sink) dropConnection() {
	s.conn.Close()
	s.conn, s.unsentRest = nil, s.unsentRest[:0]
}

// A connection may take only a part of what is sent. flushRest writes as much of the rest
// (s.unsentRest) as the connection has room for now. It reports whether nothing is left.
func (s *sink) flushRest() bool {
	if len(s.unsentRest) == 0 {
		return true
	}
	var n int
	var err error
	failed := s.raw.Write(func(fd uintptr) bool {
		n, err = syscall.Write(int(fd), s.unsentRest)
		return true // do not wait for room
	})
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		return false
	case failed != nil || err != nil:
		s.dropConnection()
		return false
	}
	s.unsentRest = s.unsentRest[:copy(s.unsentRest, s.unsentRest[n:])]
	return len(s.unsentRest) == 0
}

// WaitRoom waits until the connection may have room, or until a source connects.
func (s *sink) WaitRoom(atMost time.Duration) {
	if s.conn == nil {
		time.Sleep(min(atMost, time.Millisecond))
		return
	}
	s.conn.SetWriteDeadline(time.Now().Add(atMost))
	asked := false
	s.raw.Write(func(uintptr) bool { // returns when there is room, or at the deadline
		was := asked
		asked = true
		return was
	})
	s.conn.SetWriteDeadline(time.Time{})
}

// Close sends the rest of the last events, and then ends the stream, so that the source knows that
// no more events come.
func (s *sink) Close(generator.End) error {
	if s.conn == nil {
		return nil
	}
	defer s.conn.Close()
	return s.sendRest()
}

// sendRest sends the rest of the last events, and waits until the connection has taken them.
func (s *sink) sendRest() error {
	if s.conn == nil || len(s.unsentRest) == 0 {
		return nil
	}
	s.conn.SetWriteDeadline(time.Now().Add(drainLimit))
	if _, err := s.conn.Write(s.unsentRest); err != nil {
		return fmt.Errorf("send the last events: %w", err)
	}
	s.conn.SetWriteDeadline(time.Time{})
	s.unsentRest = s.unsentRest[:0]
	return nil
}

// drainLimit is how long a source may take to accept the last events.
const drainLimit = 10 * time.Second

// Events returns the events of the advertising benchmark, of three types in turn, or only views.
func Events(onlyViews bool) (*generator.Tuples, error) {
	const ads = 1000
	types := []string{"view", "click", "purchase"}
	if onlyViews {
		types = types[:1]
	}
	events := &generator.Tuples{}
	for n := range ads * len(types) {
		body := fmt.Appendf(nil, `"ad":"ad-%d","type":"%s","page":"page-%d","ip":"10.0.0.%d"}`,
			n*7919%ads, types[n%len(types)], n, n%250)
		if err := events.LoadBytes(body); err != nil {
			return nil, err
		}
	}
	return events, nil
}
