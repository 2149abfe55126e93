package generator

import (
	"context"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A wire carries TCP connections between a sender and a receiver. A test can cut, heal and break
// it.
type wire struct {
	listener net.Listener
	to       string
	mu       sync.Mutex
	conns    []net.Conn
	cut      chan struct{} // closed while the wire is not cut
}

func newWire(t *testing.T, endpoint string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{listener: l, to: strings.TrimPrefix(endpoint, "tcp://"), cut: make(chan struct{})}
	close(w.cut)
	t.Cleanup(func() { l.Close(); w.break_() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", w.to)
			if err != nil {
				in.Close()
				continue
			}
			w.mu.Lock()
			w.conns = append(w.conns, in, out)
			w.mu.Unlock()
			go w.copy(out, in)
			go w.copy(in, out)
		}
	}()
	return w
}

func (w *wire) endpoint() string { return "tcp://" + w.listener.Addr().String() }

func (w *wire) copy(to, from net.Conn) {
	defer to.Close()
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		w.mu.Lock()
		cut := w.cut
		w.mu.Unlock()
		<-cut
		if err != nil {
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// cutNow lets nothing through until heal is called.
func (w *wire) cutNow() (heal func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cut = make(chan struct{})
	return func() { close(w.cut) }
}

// break_ resets all open connections.
func (w *wire) break_() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// noticeList collects notices.
type noticeList struct {
	mu   sync.Mutex
	list []Notice
	now  chan Notice
}

func newNoticed() *noticeList { return &noticeList{now: make(chan Notice, 100)} }

func (n *noticeList) say(notice Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.list = append(n.list, notice)
	n.now <- notice
}

// waitForMark returns once a notice with the mark has come.
func (n *noticeList) waitForMark(t *testing.T, mark Mark) Notice {
	t.Helper()
	for {
		select {
		case notice := <-n.now:
			if notice.Mark == mark {
				return notice
			}
		case <-time.After(3 * time.Minute):
			t.Fatalf("no notice of mark %s; the notices are %v", mark, n.list)
		}
	}
}

func has(marks []Marked, mark Mark) bool {
	for _, m := range marks {
		if m.Mark == mark {
			return true
		}
	}
	return false
}

// overWire runs a sender and a receiver, with a wire between them.
func overWire(t *testing.T, push PushOptions, o SenderOptions, ro ReceiverOptions) (
	w *wire,
	sender *Sender,
	sent func() (SenderResult, error),
	received func() ReceiverResult,
) {
	t.Helper()
	pull, err := NewPull("tcp://127.0.0.1:*", PullOptions{HighWater: 10})
	if err != nil {
		t.Fatal(err)
	}
	w = newWire(t, pull.Endpoint())
	sender, sent, received = startBetween(
		t, pull, push, o, ro,
		func(push PushOptions) (Sink, error) { return NewPush(t.Context(), w.endpoint(), push) },
	)
	return w, sender, sent, received
}

// startBetween starts a receiver and a sender. connect makes the sender's sink.
func startBetween(
	t *testing.T, pull *Pull, push PushOptions, o SenderOptions, ro ReceiverOptions,
	connect func(PushOptions) (Sink, error),
) (
	sender *Sender,
	sent func() (SenderResult, error),
	received func() ReceiverResult,
) {
	t.Helper()
	ro.Sources = []Source{pull}
	receiver, err := NewReceiver(ro)
	if err != nil {
		t.Fatal(err)
	}
	gotReceived := make(chan ReceiverResult, 1)
	go func() {
		r, err := receiver.Run(context.Background())
		if err != nil {
			t.Error(err)
		}
		gotReceived <- r
	}()
	ready := make(chan struct{})
	push.Peer = func(gone bool) {
		<-ready
		if gone {
			sender.Mark(ReceiverGone, "the connection broke")
		}
	}
	o.IDs, o.Tuples = testIDs, testTuples(t)
	o.Connect = func(int) (Sink, error) { return connect(push) }
	if sender, err = NewSender(o); err != nil {
		t.Fatal(err)
	}
	close(ready)
	type result struct {
		r   SenderResult
		err error
	}
	gotSent := make(chan result, 1)
	go func() {
		r, err := sender.Run(t.Context())
		gotSent <- result{r, err}
	}()
	sent = func() (SenderResult, error) { r := <-gotSent; return r.r, r.err }
	received = func() ReceiverResult { return <-gotReceived }
	return sender, sent, received
}

// If a network is cut and healed, the run takes longer, but no tuple is lost. Both ends report the
// cut at once.
func TestNetworkCutAndHealed(t *testing.T) {
	senderSays, receiverSays := newNoticed(), newNoticed()
	w, sender, sent, received := overWire(t, PushOptions{HighWater: 10},
		SenderOptions{
			Schedule: mustSchedule(t, "constant:20000x2s"), GiveUp: 20 * time.Second,
			Notice: senderSays.say,
		},
		ReceiverOptions{Silence: 30 * time.Second, Notice: receiverSays.say})
	for sender.Sent() < 1000 {
		time.Sleep(time.Millisecond)
	}
	heal := w.cutNow()
	blocked := senderSays.waitForMark(t, Blocked)
	silent := receiverSays.waitForMark(t, SenderGone)
	heal()
	again := senderSays.waitForMark(t, Blocked)
	s, err := sent()
	wantHealed(t, s, err, received())
	t.Logf("%v, %v, %v", blocked, silent, again)
}

// wantHealed checks two things after a cut was healed: none of 40,000 tuples is lost, and the
// sender has counted the duration of the cut.
func wantHealed(t *testing.T, s SenderResult, err error, r ReceiverResult) {
	t.Helper()
	if err != nil || s.Sent != 40_000 || s.Skipped+s.Unsent > 0 || !r.Whole() ||
		r.Received != 40_000 {
		t.Errorf("sent %d of %d, received %+v, %v", s.Sent, s.Scheduled, r.Check, err)
	}
	if !has(s.Marks, Blocked) || s.Blocked < 100*time.Millisecond || s.Lateness.Blocked == 0 {
		t.Errorf("marks %v, blocked for %s, late %+v", s.Marks, s.Blocked, s.Lateness)
	}
	if got := s.Lateness.Blocked + s.Stalled + s.Busy; got != s.Late {
		t.Errorf("%d tuples were late, and %d have a cause: %+v", s.Late, got, s.Lateness)
	}
}

// If a connection breaks, the sender notices at once. The receiver counts the tuples that were
// lost.
func TestConnectionBreaks(t *testing.T) {
	says := newNoticed()
	w, sender, sent, received := overWire(t, PushOptions{},
		SenderOptions{
			Schedule: mustSchedule(t, "constant:20000x1s"), GiveUp: 20 * time.Second,
			Notice: says.say,
		}, ReceiverOptions{Silence: 10 * time.Second})
	for sender.Sent() < 1000 {
		time.Sleep(time.Millisecond)
	}
	w.break_()
	says.waitForMark(t, ReceiverGone)
	s, err := sent()
	r := received()
	if err != nil || !has(s.Marks, ReceiverGone) {
		t.Errorf("marks %v, %v", s.Marks, err)
	}
	if r.Received+r.Lost != s.Sent || r.Ended != 1 {
		t.Errorf("sent %d, but received %d and lost %d: %+v", s.Sent, r.Received, r.Lost, r.Check)
	}
	if r.Lost > 0 != has(r.Marks, Lost) {
		t.Errorf("lost %d, marks %v", r.Lost, r.Marks)
	}
}

// watchedPush is a Push that records how long it has been taking nothing.
type watchedPush struct {
	*Push
	since time.Time    // when it began to take nothing; zero: it takes tuples
	lasts atomic.Int64 // the time from then until the last refusal, in ns
}

func (w *watchedPush) Send(tuples []Tuple) (int, error) {
	n, err := w.Push.Send(tuples)
	switch {
	case n > 0:
		w.since = time.Time{}
		w.lasts.Store(0)
	case w.since.IsZero():
		w.since = time.Now()
	default:
		w.lasts.Store(int64(time.Since(w.since)))
	}
	return n, err
}

// A slow receiver pushes back. The sender's schedule does not move: the sender skips tuples that
// became due long before the receiver goes on, and counts late tuples under Lateness.Blocked. The
// receiver does not go on before the sender is late enough, however busy the machine is.
func TestSlowReceiver(t *testing.T) {
	const giveUp = 300 * time.Millisecond
	pull, err := NewPull("tcp://127.0.0.1:*", PullOptions{HighWater: 10})
	if err != nil {
		t.Fatal(err)
	}
	sink, goOn := new(watchedPush), make(chan struct{})
	sender, sent, received := startBetween(t, pull, PushOptions{HighWater: 10},
		SenderOptions{Schedule: mustSchedule(t, "constant:100000x1h"), GiveUp: giveUp},
		ReceiverOptions{
			Bucket: 50, Silence: time.Hour, Handle: func(int, *Bucket) { <-goOn },
		},
		func(o PushOptions) (_ Sink, err error) {
			sink.Push, err = NewPush(t.Context(), pull.Endpoint(), o)
			return sink, err
		})
	for sink.lasts.Load() < int64(2*giveUp) {
		time.Sleep(time.Millisecond)
	}
	before := sender.Sent()
	close(goOn)
	for sender.Sent() < before+1000 {
		time.Sleep(time.Millisecond)
	}
	for _, thread := range sender.threads {
		thread.stopped.Store(true) // nothing more is due
	}
	s, err := sent()
	r := received()
	if err != nil || s.Scheduled != s.Sent+s.Skipped+s.Unsent || s.Skipped == 0 ||
		s.BlockedSends == 0 || s.Lateness.Blocked == 0 || s.Blocked < giveUp {
		t.Errorf("%d scheduled, %d sent, %d skipped, refused %d times for %v, late %+v, %v",
			s.Scheduled, s.Sent, s.Skipped, s.BlockedSends, s.Blocked, s.Lateness, err)
	}
	if !has(s.Marks, Behind) || r.Received != s.Sent || !r.Whole() {
		t.Errorf("marks %v, received %+v", s.Marks, r.Check)
	}
}

// If a sender dies before it has sent the end, the receiver notices, and does not wait for ever.
func TestSenderDies(t *testing.T) {
	says := newNoticed()
	pull, err := NewPull("tcp://127.0.0.1:*", PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	receiver, err := NewReceiver(ReceiverOptions{
		Sources: []Source{pull}, Silence: 1200 * time.Millisecond, Notice: says.say,
	})
	if err != nil {
		t.Fatal(err)
	}
	push := newRawPush(t, pull.Endpoint())
	push(appendTuple(appendHeader(nil, kindTuples, 1), Tuple{1<<countBits + 4, []byte("x")}))
	push([]byte("no message of ours"))
	push(appendTuple(appendHeader(nil, kindTuples, 1), Tuple{1<<countBits + 6, []byte("x")}))
	r, err := receiver.Run(t.Context())
	want := Check{Received: 2, Lost: 1, Malformed: 1, Sources: 1}
	if err != nil || r.Check != want {
		t.Errorf("%+v, want %+v, %v", r.Check, want, err)
	}
	if !has(r.Marks, SenderGone) || !has(r.Marks, Malformed) || !has(r.Marks, Lost) {
		t.Errorf("marks %v", r.Marks)
	}
	says.waitForMark(t, Malformed)
}

// newRawPush returns a function that sends any bytes as a message.
func newRawPush(t *testing.T, endpoint string) (send func([]byte)) {
	t.Helper()
	p, err := NewPush(t.Context(), endpoint, PushOptions{Patience: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close(End{}) })
	return func(message []byte) { p.socket.send(message, []uint32{uint32(len(message))}) }
}

// A client that does not speak ZeroMQ may connect and send bytes. The receiver goes on.
func TestStrangersConnect(t *testing.T) {
	pull, err := NewPull("tcp://127.0.0.1:*", PullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", strings.TrimPrefix(pull.Endpoint(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, "GET / HTTP/1.1\r\n\r\n")
	conn.Close()
	receiver, err := NewReceiver(ReceiverOptions{Sources: []Source{pull}})
	if err != nil {
		t.Fatal(err)
	}
	var r ReceiverResult
	var done atomic.Bool
	ended := make(chan struct{})
	go func() { r, err = receiver.Run(t.Context()); done.Store(true); close(ended) }()
	push, pushErr := NewPush(t.Context(), pull.Endpoint(), PushOptions{})
	if pushErr != nil {
		t.Fatal(pushErr)
	}
	if n, err := push.Send([]Tuple{{1, []byte("x")}}); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if err := push.Close(End{1, 1}); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err != nil || !r.Whole() || r.Received != 1 {
		t.Errorf("%+v, %v", r.Check, err)
	}
}

func TestBigTuples(t *testing.T) {
	var tuples Tuples
	if err := tuples.LoadBytes(make([]byte, MaxTuple)); err != nil {
		t.Fatal(err)
	}
	for _, batch := range []int{1, 20} {
		sender, received := connectPair(
			t, 1, PushOptions{Batch: batch},
			SenderOptions{FlatOut: time.Minute, Limit: 50, Batch: batch, Tuples: &tuples},
			ReceiverOptions{},
		)
		if _, err := sender.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if r := received(); !r.Whole() || r.Received != 50 {
			t.Errorf("batch %d: %+v", batch, r.Check)
		}
	}
}
