package capture

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/internal/conversation"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(withoutRights) != "":
		startWithoutRights()
		return
	case os.Getenv(stepsVariable) != "":
		stepsMain(os.Getenv(stepsVariable))
		return
	case os.Getenv(costVariable) != "":
		loadMain()
		return
	case os.Getenv(conversation.Variable) != "":
		conversation.Main()
		return
	}
	os.Exit(leak.Main(m))
}

// captureLog is what the log of a capture says.
type captureLog struct {
	messages    []blackbox.Message
	connections map[uint32]blackbox.Connection
	threads     map[uint32]blackbox.Thread
	places      map[uint32]blackbox.Place
	happenings  []blackbox.Happening
	lost        map[blackbox.Reason]uint64
	bad         uint64
	dropped     uint64
}

func readCaptured(t *testing.T, logs string) captureLog {
	t.Helper()
	c := captureLog{
		connections: map[uint32]blackbox.Connection{}, threads: map[uint32]blackbox.Thread{},
		places: map[uint32]blackbox.Place{}, lost: map[blackbox.Reason]uint64{},
	}
	segments, err := logstore.Segments(logs)
	if err != nil {
		t.Fatal(err)
	}
	r := logstore.ReadLog(segments)
	defer r.Close()
	var d blackbox.Decoder
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		for _, drop := range b.Drops {
			c.dropped += drop.Count
		}
		for _, e := range b.Events {
			switch v := d.Add(blackbox.Event{Counter_cycles: e.Counter, ID: e.ID}).(type) {
			case blackbox.Message:
				c.messages = append(c.messages, v)
			case blackbox.Connection:
				c.connections[v.Number] = v
			case blackbox.Thread:
				c.threads[v.Number] = v
			case blackbox.Place:
				c.places[v.Process] = v
			case blackbox.Happening:
				c.happenings = append(c.happenings, v)
			case blackbox.Loss:
				c.lost[v.Reason] += v.Messages
			}
		}
	}
	d.End()
	c.bad = d.Bad
	if report := r.Report(); !report.Whole() || !report.Sealed {
		t.Errorf("log: %+v", report)
	}
	return c
}

// rig is a capture with a drainer.
type rig struct {
	dir     string
	capture *Capture
	drainer *drain.Drainer
}

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir()}
	rings := filepath.Join(r.dir, "rings")
	var err error
	r.drainer, err = drain.Start(rings, drain.Options{Logs: filepath.Join(r.dir, "logs")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.drainer.Close() })
	o.Dir, o.Notify = rings, func(err error) { t.Error(err) }
	r.capture, err = Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.capture.Close() })
	return r
}

// endCapture ends the capture and returns what it logged.
func (r *rig) endCapture(t *testing.T) captureLog {
	t.Helper()
	if err := r.capture.Close(); err != nil {
		t.Error(err)
	}
	if err := r.drainer.Close(); err != nil {
		t.Error(err)
	}
	return readCaptured(t, filepath.Join(r.dir, "logs"))
}

// A side is one direction of one socket.
type side struct {
	cookie uint64
	sent   bool
}

// groupBySide groups the captured messages and the true calls by side.
func groupBySide(got captureLog, truth []conversation.Call) (seen map[side][]blackbox.Message,
	wanted map[side][]conversation.Call) {
	seen, wanted = map[side][]blackbox.Message{}, map[side][]conversation.Call{}
	for _, m := range got.messages {
		s := side{got.connections[m.Connection].Cookie, m.Kind == blackbox.Sent}
		seen[s] = append(seen[s], m)
	}
	for _, c := range truth {
		s := side{c.Cookie, c.Sent}
		wanted[s] = append(wanted[s], c)
	}
	return seen, wanted
}

// missedMessages returns the number of messages that the log counts as missing.
func (c captureLog) missedMessages(t *testing.T) (n uint64) {
	t.Helper()
	for reason, lost := range c.lost {
		if n += lost; reason != blackbox.BufferFull {
			t.Errorf("%d messages are lost for reason %d", lost, reason)
		}
	}
	if c.bad > 2*c.dropped {
		t.Errorf("%d events are no records, %d events were dropped", c.bad, c.dropped)
	}
	return n + c.dropped
}

// Every message that programs sent and received over TCP is captured, with the right connection,
// size, position, thread and time. This also holds on a kernel that does not show when a call
// begins. It also holds if there are so few slots that sockets and threads take the slots of other
// sockets and threads.
func TestPrivilegedCaptureIsTheTruth(t *testing.T) {
	privileged.Need(t)
	for name, o := range map[string]Options{
		"usual": {}, "light": {Light: true}, "slots": {slots: 2}, "indirect": {indirect: true},
		"all": {slots: 2, Also: Also{true, true, true}},
	} {
		t.Run(name, func(t *testing.T) { captureIsTheTruth(t, o, false) })
	}
	// When a sending call returns, TCP has often not sent all bytes of the call. In that case, the
	// time at which TCP itself last read the clock may be before the call.
	t.Run("light and slow", func(t *testing.T) { captureIsTheTruth(t, Options{Light: true}, true) })
}

func captureIsTheTruth(t *testing.T, o Options, slow bool) {
	r := newRig(t, o)
	again, connections, messages := seed.Of(t)%1e9, 6, 700
	var server, client *conversation.Program
	converse := func() error {
		server = conversation.Start(t, "server", "127.0.0.1:0", again, connections, messages)
		client = conversation.Start(t, "client", server.Says(), again, connections, messages)
		return nil
	}
	if slow {
		pair, err := netns.NewPair()
		if err != nil {
			t.Fatal(err)
		}
		defer pair.Close()
		err = errors.Join(pair.Do(0, netns.SlowLoopback), pair.Do(0, converse))
		if err != nil {
			t.Fatal(err)
		}
	} else {
		converse()
	}
	truth := append(client.Truth(t), server.Truth(t)...)
	stats := r.capture.Stats()
	got := r.endCapture(t)
	t.Logf("%d calls, %+v", len(truth), stats)
	_, wanted := groupBySide(got, truth)
	if len(wanted) != 4*connections-2*(connections/3) {
		t.Errorf("the truth has %d sides", len(wanted))
	}
	// Both ends of a connection know the sequence numbers with which its two streams began.
	for _, c := range got.connections {
		ends := 0
		for _, d := range got.connections {
			if near(c.Sends, d.Receives) && near(d.Sends, c.Receives) {
				ends++
			}
		}
		if _, ours := wanted[side{c.Cookie, true}]; ours && ends != 1 {
			t.Errorf("%+v has %d other ends", c, ends)
		}
	}
	var widest, intervals, unsure uint64
	bases := map[side]uint64{} // positions of the first bytes
	compare(t, got, truth, func(s side, m blackbox.Message, c conversation.Call, before uint64) {
		base, again := bases[s]
		if !again {
			base = m.Position - before
			bases[s] = base
		}
		position := (base + before) & blackbox.MaxPosition
		// A thread may take the entry of another thread. For a few ns, the program in the kernel
		// then may not see the beginning of a call, or may mistake a later part of the call for its
		// beginning. Then the program reports the position at the end of the call, and the capture
		// may say that the message's position is not sure.
		if o.slots > 0 && !m.Sure && !m.Early && before > 0 && m.Position == position {
			unsure++
			return
		}
		// If the beginning of the first call was not seen, the first captured message may be only
		// the end of what that call sent.
		late := o.Light || o.slots > 0 && !m.Early || isStarved(m)
		sure := m.Sure || !o.Light && late && s.sent && before == 0
		if m.Position != position || !m.Stream || !sure || m.Early != (s.sent && !late) {
			t.Fatalf("socket %d, after %d bytes: captured %+v, the truth is %+v", s.cookie, before,
				m, c)
		}
		widest, intervals = max(widest, intervalWidth(m)), intervals+intervalWidth(m)
	})
	// The place of the message that follows lost messages is not sure either.
	if missed := got.missedMessages(t); unsure > 3+missed {
		t.Errorf("the places of %d messages are not sure, %d messages were lost", unsure, missed)
	}
	t.Logf("stamps: %.0f cycles wide on average, %d at most",
		float64(intervals)/float64(len(truth)), widest)
}

// compare calls the function named each, once for every true call that was captured. It passes the
// message, and the number of bytes that precede the call. The test fails if the capture missed a
// call without counting it, or logged a call that nobody made.
func compare(t *testing.T, got captureLog, truth []conversation.Call,
	each func(s side, m blackbox.Message, c conversation.Call, before uint64)) {
	t.Helper()
	seen, wanted := groupBySide(got, truth)
	var missing uint64
	for s, calls := range wanted {
		messages := seen[s]
		var before uint64
		for _, c := range calls {
			if len(messages) > 0 && agreesWith(got, messages[0], c) {
				each(s, messages[0], c, before)
				messages = messages[1:]
			} else {
				missing++
			}
			before += uint64(c.Bytes)
		}
		if len(messages) > 0 {
			t.Errorf("socket %d, sent %t: nobody made the call that gave %+v", s.cookie, s.sent,
				messages[0])
		}
	}
	if missed := got.missedMessages(t); missing > missed {
		t.Errorf("%d of %d messages are not captured, %d are counted", missing, len(truth),
			missed)
	}
}

func near(a, b uint32) bool { return a-b+1 <= 2 }

// intervalWidth returns the width of the interval in which a message was sent or received.
func intervalWidth(m blackbox.Message) uint64 {
	if m.Early {
		return m.Width_cycles
	}
	return m.Ended_cycles - m.Began_cycles
}

// agreesWith reports whether a captured message can be the message of a call.
func agreesWith(got captureLog, m blackbox.Message, c conversation.Call) bool {
	lo, hi, th := m.Began_cycles, m.Began_cycles+intervalWidth(m), got.threads[m.Thread]
	return int(m.Bytes) == c.Bytes && int(m.Thread) == c.Thread &&
		hi >= c.Before && lo <= c.After &&
		m.Ended_cycles >= c.Before &&
		(m.Early || isStarved(m) || m.Ended_cycles <= c.After+blackbox.MaxWidth_cycles) &&
		strings.HasPrefix(filepath.Base(os.Args[0]), th.Program) && th.Program != ""
}

// isStarved reports whether a sent message has no early stamp because the capture got no processor
// for more than a second. Then the capture cannot convert the stamp exactly enough.
func isStarved(m blackbox.Message) bool {
	const second_cycles = 1e9 // less than a second on every processor
	return m.Kind == blackbox.Sent && !m.Early && m.Ended_cycles-m.Began_cycles > second_cycles
}

// Messages over UNIX sockets and over UDP are captured, with their size, thread and time. Both ends
// of a datagram have the same checksum, and no other datagram has it. Before a message over a UNIX
// socket is received, one message waits. Afterwards, none waits.
func TestPrivilegedOtherSockets(t *testing.T) {
	privileged.Need(t)
	r := newRig(t, Options{})
	program := conversation.Start(t, "local", "0.0.0.0:0", 0, 0, 100)
	truth := program.Truth(t)
	got := r.endCapture(t)
	_, wanted := groupBySide(got, truth)
	if len(wanted) != 4 {
		t.Errorf("the truth has %d sides", len(wanted))
	}
	unknown := 0
	checksums := map[uint32]map[bool]int{}
	compare(t, got, truth, func(_ side, m blackbox.Message, c conversation.Call, _ uint64) {
		of := got.connections[m.Connection]
		isUNIX := of.Family == blackbox.UNIX
		waiting := uint16(1)
		if c.Sent {
			waiting = 2
		}
		if m.Stream || m.Early || m.Position != 0 || isUNIX != (m.Checksum == 0) ||
			isUNIX && (m.Waiting != waiting && m.Waiting != 0 ||
				of.Protocol != blackbox.UNIXStream) {
			t.Fatalf("captured %+v, the truth is %+v", m, c)
		}
		if !isUNIX {
			if checksums[m.Checksum] == nil {
				checksums[m.Checksum] = map[bool]int{}
			}
			checksums[m.Checksum][c.Sent]++
		} else if m.Waiting == 0 {
			unknown++
		}
	})
	for n := range 100 {
		b := conversation.LocalBytes(1000 + n)
		if checksums[checksumOf(b)] == nil {
			t.Errorf("no datagram has the checksum %#x", checksumOf(b))
		}
	}
	for checksum, n := range checksums {
		if n[true] != 1 || n[false] != 1 {
			t.Errorf("checksum %#x: %v", checksum, n)
		}
	}
	if unknown > 100 {
		t.Errorf("of %d messages it is not known what waited", unknown)
	}
	peers, families := map[uint64]uint64{}, map[blackbox.Family]int{}
	for _, c := range got.connections {
		if _, ours := wanted[side{c.Cookie, true}]; !ours && wanted[side{c.Cookie, false}] == nil {
			continue
		}
		families[c.Family]++
		peers[c.Cookie] = c.Peer
		made := uint32(0)
		if c.Family == blackbox.UNIX {
			made = uint32(program.Process())
		}
		if c.PeerProcess != made {
			t.Errorf("process %d made the peer of %+v", made, c)
		}
		if c.Family == blackbox.IPv6 && (c.Protocol != blackbox.UDP || !c.Local.IsValid() ||
			!c.Local.Addr().IsLoopback() || c.Local.Port() == 0 || !c.Remote.Addr().IsLoopback()) {
			t.Errorf("%+v", c)
		}
	}
	if families[blackbox.UNIX] != 2 || families[blackbox.IPv6] != 2 {
		t.Errorf("families %v", families)
	}
	for cookie, peer := range peers {
		if peer != 0 && peers[peer] != 0 && peers[peer] != cookie {
			t.Errorf("socket %d has peer %d, which has %d", cookie, peer, peers[peer])
		}
	}
}

// checksumOf computes a checksum as blackbox/FORMAT.md says.
func checksumOf(b []byte) uint32 {
	h := uint64(len(b))
	mix := func(b []byte) {
		for ; len(b) > 0; b = b[8:] {
			h = (h ^ binary.LittleEndian.Uint64(b)) * 0x9E3779B97F4A7C15
			h ^= h >> 29
		}
	}
	first := make([]byte, 64)
	copy(first, b)
	mix(first)
	if len(b) > 64 {
		mix(b[len(b)-64:])
	}
	return max(uint32(h>>32), 1)
}

const withoutRights = "CLOUDPROFILER_CAPTURE_TEST_WITHOUT_RIGHTS"

func startWithoutRights() {
	if err := syscall.Setuid(65534); err != nil {
		panic(err)
	}
	_, err := Start(Options{})
	fmt.Print(errors.Is(err, ErrNotPossible), " ", err)
}

// If this process lacks rights that a capture needs, the error names the missing rights.
func TestPrivilegedWithoutRights(t *testing.T) {
	privileged.Need(t)
	cmd, err := reexec.Command()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), withoutRights+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "true start capture: ") ||
		!strings.Contains(string(out), "lacks CAP_BPF and CAP_PERFMON") {
		t.Errorf("%v: %s", err, out)
	}
}

// If the eBPF programs do nothing, nothing is captured.
func TestPrivilegedEmpty(t *testing.T) {
	privileged.Need(t)
	r := newRig(t, Options{Empty: true})
	server := conversation.Start(t, "server", "127.0.0.1:0", 1, 1, 10)
	client := conversation.Start(t, "client", server.Says(), 1, 1, 10)
	if len(client.Truth(t)) == 0 || len(server.Truth(t)) == 0 {
		t.Error("the programs exchanged no messages")
	}
	if got := r.endCapture(t); len(got.messages) > 0 {
		t.Errorf("%d messages were captured", len(got.messages))
	}
}

// Where a capture is possible, Check says so.
func TestPrivilegedCheck(t *testing.T) {
	privileged.Need(t)
	if _, err := Check(); err != nil {
		t.Error(err)
	}
}

// The kernel accepts the programs that learn the present thread without its help. The programs that
// ask it load, too.
func TestPrivilegedVariants(t *testing.T) {
	privileged.Need(t)
	for _, indirect := range []bool{false, true} {
		k, err := load(0, Options{indirect: indirect})
		if err != nil {
			t.Fatal(err)
		}
		if direct := k.programs.Maps[mapQueues] != nil; direct == indirect {
			t.Errorf("indirect %v: the programs read the queues: %v", indirect, direct)
		}
		if err := k.close(); err != nil {
			t.Error(err)
		}
	}
}

// The name of the channel is valid.
func TestChannelIsValid(t *testing.T) {
	if _, err := channel.ParseName(blackbox.Channel); err != nil {
		t.Error(err)
	}
}
