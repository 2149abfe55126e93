package capture

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func TestMain(m *testing.M) {
	if os.Getenv(talkVariable) != "" {
		talk()
		return
	}
	os.Exit(leak.Main(m))
}

// captured is what the log of a capture says.
type captured struct {
	messages    []blackbox.Message
	connections map[uint32]blackbox.Connection
	threads     map[uint32]blackbox.Thread
	lost        map[blackbox.Reason]uint64
	bad         uint64
	dropped     uint64
}

func readCaptured(t *testing.T, logs string) captured {
	t.Helper()
	c := captured{
		connections: map[uint32]blackbox.Connection{}, threads: map[uint32]blackbox.Thread{},
		lost: map[blackbox.Reason]uint64{},
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

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{dir: t.TempDir()}
	rings := filepath.Join(r.dir, "rings")
	var err error
	r.drainer, err = drain.Start(rings, drain.Options{Logs: filepath.Join(r.dir, "logs")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.drainer.Close() })
	r.capture, err = Start(Options{Dir: rings, Notify: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.capture.Close() })
	return r
}

// end ends the capture and returns what it logged.
func (r *rig) end(t *testing.T) captured {
	t.Helper()
	if err := r.capture.Close(); err != nil {
		t.Error(err)
	}
	if err := r.drainer.Close(); err != nil {
		t.Error(err)
	}
	return readCaptured(t, filepath.Join(r.dir, "logs"))
}

// A program is a process that a test starts. It sends and receives messages, and writes down its
// calls: they are the truth.
type program struct {
	cmd  *exec.Cmd
	out  bytes.Buffer
	said *bufio.Scanner
}

func startProgram(t *testing.T, args ...any) *program {
	t.Helper()
	var words []string
	for _, a := range args {
		words = append(words, fmt.Sprint(a))
	}
	p := &program{}
	var err error
	if p.cmd, err = reexec.Command(words...); err != nil {
		t.Fatal(err)
	}
	p.cmd.Env = append(os.Environ(), talkVariable+"=1")
	p.cmd.Stdout = &p.out
	said, err := p.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.said = bufio.NewScanner(said)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.cmd.Process.Kill() })
	return p
}

// truth waits for the program's end, and returns what it wrote down.
func (p *program) truth(t *testing.T) (calls []call) {
	t.Helper()
	for p.said.Scan() {
		t.Error(p.said.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		t.Fatalf("a program of the test: %v", err)
	}
	if err := gob.NewDecoder(&p.out).Decode(&calls); err != nil {
		t.Fatal(err)
	}
	return calls
}

// A side is one direction of one socket.
type side struct {
	cookie uint64
	sent   bool
}

// sides groups the captured messages and the true calls by side.
func sides(got captured, truth []call) (map[side][]blackbox.Message, map[side][]call) {
	seen, wanted := map[side][]blackbox.Message{}, map[side][]call{}
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

// missed returns the number of messages that the log counts as missing.
func (c captured) missed(t *testing.T) (n uint64) {
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
// size, position, thread and time.
func TestPrivilegedCaptureIsTheTruth(t *testing.T) {
	privileged.Need(t)
	r := newRig(t)
	again, connections, messages := seed.Of(t)%1e9, 6, 700
	server := startProgram(t, "server", 0, again, connections, messages)
	server.said.Scan()
	client := startProgram(t, "client", server.said.Text(), again, connections, messages)
	truth := append(client.truth(t), server.truth(t)...)
	stats := r.capture.Stats()
	got := r.end(t)
	t.Logf("%d calls, %+v", len(truth), stats)
	seen, wanted := sides(got, truth)
	if len(wanted) != 4*connections-2*(connections/3) {
		t.Errorf("the truth has %d sides", len(wanted))
	}
	var missing, widest, intervals uint64
	for s, calls := range wanted {
		messages := seen[s]
		var base, offset uint64 // position of the first byte, and number of bytes before this call
		for i, c := range calls {
			if len(messages) == 0 || !agrees(got, messages[0], c) {
				missing++
				offset += uint64(c.Bytes)
				continue
			}
			m := messages[0]
			messages = messages[1:]
			if base == 0 {
				base = m.Position - offset
			}
			if position := (base + offset) & blackbox.MaxPosition; m.Position != position ||
				!m.Stream || !m.Sure || m.Early != s.sent {
				t.Fatalf("socket %d, message %d at %d: captured %+v, the truth is %+v",
					s.cookie, i, position, m, c)
			}
			offset += uint64(c.Bytes)
			widest, intervals = max(widest, width(m)), intervals+width(m)
		}
		if len(messages) > 0 {
			t.Errorf("socket %d, sent %t: nobody made the call that gave %+v", s.cookie, s.sent,
				messages[0])
		}
	}
	if missed := got.missed(t); missing > missed {
		t.Errorf("%d of %d messages are not captured, %d are counted", missing, len(truth),
			missed)
	}
	t.Logf("stamps: %.0f cycles wide on average, %d at most",
		float64(intervals)/float64(len(truth)), widest)
}

// width returns the width of the interval in which a message was sent or received.
func width(m blackbox.Message) uint64 {
	if m.Early {
		return m.Width_cycles
	}
	return m.Ended_cycles - m.Began_cycles
}

// agrees reports whether a captured message can be the message of a call.
func agrees(got captured, m blackbox.Message, c call) bool {
	lo, hi, th := m.Began_cycles, m.Began_cycles+width(m), got.threads[m.Thread]
	return int(m.Bytes) == c.Bytes && int(m.Thread) == c.Thread &&
		hi >= c.Before && lo <= c.After &&
		m.Ended_cycles >= c.Before && m.Ended_cycles <= c.After+blackbox.MaxWidth_cycles &&
		strings.HasPrefix(filepath.Base(os.Args[0]), th.Program) && th.Program != ""
}

// Messages over UNIX sockets and over UDP are captured, with their size, thread and time.
func TestPrivilegedOtherSockets(t *testing.T) {
	privileged.Need(t)
	r := newRig(t)
	truth := startProgram(t, "local", 0, 0, 0, 100).truth(t)
	got := r.end(t)
	seen, wanted := sides(got, truth)
	var missing uint64
	if len(wanted) != 4 {
		t.Errorf("the truth has %d sides", len(wanted))
	}
	for s, calls := range wanted {
		messages := seen[s]
		for _, c := range calls {
			if len(messages) == 0 || !agrees(got, messages[0], c) {
				missing++
				continue
			}
			if m := messages[0]; m.Stream || m.Early || m.Position != 0 {
				t.Fatalf("captured %+v, the truth is %+v", m, c)
			}
			messages = messages[1:]
		}
		if len(messages) > 0 {
			t.Errorf("socket %d, sent %t: nobody made the call that gave %+v", s.cookie, s.sent,
				messages[0])
		}
	}
	if missed := got.missed(t); missing > missed {
		t.Errorf("%d of %d messages are not captured, %d are counted", missing, len(truth),
			missed)
	}
	peers, families := map[uint64]uint64{}, map[blackbox.Family]int{}
	for _, c := range got.connections {
		if _, ours := wanted[side{c.Cookie, true}]; !ours && wanted[side{c.Cookie, false}] == nil {
			continue
		}
		families[c.Family]++
		peers[c.Cookie] = c.Peer
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

// Without the rights to capture, the error says which ones are missing, and nothing is left.
func TestPrivilegedWithoutRights(t *testing.T) {
	privileged.Need(t)
	p := startProgram(t, "start", t.TempDir())
	p.said.Scan()
	if s := p.said.Text(); !strings.HasPrefix(s, "true start capture: ") ||
		!strings.Contains(s, "CAP_BPF") {
		t.Errorf("%q", s)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// The name of the channel is valid.
func TestChannelIsValid(t *testing.T) {
	if _, err := channel.ParseName(blackbox.Channel); err != nil {
		t.Error(err)
	}
}
