package engine

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

func listen(t *testing.T, done func(ids ...uint64)) *Load {
	t.Helper()
	l, err := Listen(done)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l
}

// dial connects to a port of a load, as an engine does.
func dial(t *testing.T, port int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func connect(t *testing.T, l *Load) generator.Sink {
	t.Helper()
	if err := l.Connected(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	s, err := l.Connect(0)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// deadline is the time at which a hanging test gives up.
const deadline = 3 * time.Minute

// offer sends events until all are taken. Whenever the sink takes no event, offer calls the
// function refused.
func offer(s generator.Sink, events []generator.Tuple, refused func()) error {
	for begun := time.Now(); len(events) > 0; {
		n, err := s.Send(events)
		if err != nil {
			return err
		}
		if events = events[n:]; n == 0 {
			refused()
			s.(generator.RoomWaiter).WaitRoom(time.Millisecond)
		}
		if time.Since(begun) > deadline {
			return fmt.Errorf("the sink still refuses %d events after %s", len(events), deadline)
		}
	}
	return nil
}

func nothing() {}

// numberedEvents returns n events, with the numbers at, at + 1 and so on. The event with number i
// has the id first + i.
func numberedEvents(first, at, n int) (events []generator.Tuple) {
	for i := at; i < at+n; i++ {
		events = append(events, generator.Tuple{
			ID: uint64(first + i), Body: fmt.Appendf(nil, `"ad":"ad-%d"}`, i),
		})
	}
	return events
}

// A source reads each event once and in order, as a JSON object with the event's id. This holds
// even though the connection does not have room for all events at once.
func TestSourceReadsEveryEvent(t *testing.T) {
	l := listen(t, nil)
	conn := dial(t, l.Port)
	s := connect(t, l)
	const first, batch = 1 << 62, 64
	full := make(chan struct{})
	sent := make(chan error, 1)
	n := 0 // number of events that the goroutine has sent; until it ends, nobody else uses n
	go func() {
		sent <- func() error {
			once := sync.OnceFunc(func() { close(full) })
			const most = 10_000_000 // more events than any connection has room for
			for enough := most; n < enough; n += batch {
				if err := offer(s, numberedEvents(first, n, batch), func() {
					once()
					enough = min(enough, 2*n) // twice as many as the connection has room for
				}); err != nil {
					return err
				}
			}
			if n >= most {
				return errors.New("it was never full")
			}
			return s.Close(generator.End{})
		}()
	}()
	select { // the source does not read before this
	case <-full:
	case err := <-sent:
		t.Fatalf("the sink took everything, although nobody read: %v", err)
	}
	lines := bufio.NewScanner(conn)
	read := 0
	for ; lines.Scan(); read++ {
		var e struct {
			ID uint64
			Ad string
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("line %d, %q: %v", read, lines.Bytes(), err)
		}
		if want := fmt.Sprintf("ad-%d", read); e.ID != uint64(first+read) || e.Ad != want {
			t.Fatalf("line %d is event %d of %q, want %d of %q", read, e.ID, e.Ad, first+read, want)
		}
	}
	if err := <-sent; err != nil || read != n {
		t.Fatalf("the source read %d events, want %d: %v", read, n, err)
	}
}

// If a source's connection breaks, its sink continues with the next source that connects.
func TestSinkFindsNextSource(t *testing.T) {
	l := listen(t, nil)
	broken := dial(t, l.Port)
	s := connect(t, l)
	if err := offer(s, numberedEvents(1, 0, 1), nothing); err != nil {
		t.Fatal(err)
	}
	broken.(*net.TCPConn).SetLinger(0) // Close resets the connection
	broken.Close()
	for begun := time.Now(); ; { // the kernel reports the reset only at a later event
		if n, err := s.Send(numberedEvents(2, 0, 1)); err != nil {
			t.Fatal(err)
		} else if n == 0 {
			break
		}
		if time.Since(begun) > deadline {
			t.Fatal("the sink does not notice that its source is gone")
		}
	}
	next := dial(t, l.Port)
	if err := offer(s, numberedEvents(3, 0, 1), nothing); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(next).ReadString('\n'); line != "{\"id\":3,\"ad\":\"ad-0\"}\n" {
		t.Fatalf("the next source read %q, %v", line, err)
	}
	if err := s.Close(generator.End{}); err != nil {
		t.Fatal(err)
	}
}

// All ids come back, no matter how the stream is cut into pieces. Lines that are not ids are
// ignored.
func TestIDsComeBack(t *testing.T) {
	const text = "18446744073709551614\n7\nx\n\n9\n1"
	want := []uint64{1<<64 - 2, 7, 9}
	for name, pieces := range map[string]func(io.Reader) io.Reader{
		"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader,
		"halves": iotest.HalfReader, "with the end": iotest.DataErrReader,
	} {
		var got []uint64
		l := &Load{done: func(ids ...uint64) { got = append(got, ids...) }}
		if l.readIDs(pieces(strings.NewReader(text))); !slices.Equal(got, want) {
			t.Errorf("%s: %d came back, want %d", name, got, want)
		}
	}
}

// What an engine writes to the port for ids arrives at the function done.
func TestBackPort(t *testing.T) {
	got := make(chan uint64, 1)
	l := listen(t, func(ids ...uint64) { got <- ids[0] })
	if _, err := dial(t, l.BackPort).Write([]byte("7\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case id := <-got:
		if id != 7 {
			t.Fatalf("%d came back, want 7", id)
		}
	case <-time.After(deadline):
		t.Fatal("nothing came back")
	}
}

// Waiting for sources ends with the context, and says how many are missing.
func TestConnectedGivesUp(t *testing.T) {
	l := listen(t, nil)
	dial(t, l.Port)
	if err := l.Connected(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	want := "wait for the engine's sources: 1 of 2 have connected: context canceled"
	if err := l.Connected(ctx, 2); err == nil || err.Error() != want {
		t.Fatalf("%v, want %s", err, want)
	}
}

// All kinds of events are sent in turn, unless only views are wanted.
func TestEvents(t *testing.T) {
	for onlyViews, want := range map[bool]int{false: 3000, true: 1000} {
		events, err := Events(onlyViews)
		if err != nil || events.Len() != want {
			t.Fatalf("onlyViews %v: %d events, %v, want %d", onlyViews, events.Len(), err, want)
		}
	}
}
