package messages

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/internal/conversation"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// A rig is a capture with a drainer.
type rig struct {
	logs    string
	drainer *drain.Drainer
	capture *capture.Capture
}

func startRig(t *testing.T) *rig {
	t.Helper()
	dir := t.TempDir()
	rings, logs := filepath.Join(dir, "rings"), filepath.Join(dir, "logs")
	d, err := drain.Start(rings, drain.Options{Logs: logs, Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	c, err := capture.Start(capture.Options{Dir: rings, Also: capture.Also{Arrivals: true}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &rig{logs, d, c}
}

// endCapture ends the capture. Everything that was captured is then in the logs.
func (r *rig) endCapture(t *testing.T) {
	t.Helper()
	if err := errors.Join(r.capture.Close(), r.drainer.Close()); err != nil {
		t.Error(err)
	}
}

// Each message over UNIX sockets of all types and over UDP is matched with the call that received
// it, and with no other. This also holds if messages are on their way when the capture begins.
func TestPrivilegedPipes(t *testing.T) {
	privileged.Need(t)
	for name, middle := range map[string]bool{"whole": false, "middle": true} {
		t.Run(name, func(t *testing.T) {
			var program *conversation.Program
			begin := func() {
				program = conversation.Start(t, "pipes", "0.0.0.0:0", seed.Of(t)%1e9, 0, 200)
				program.Says()
			}
			if middle {
				begin()
			}
			r := startRig(t)
			from := asm.Counter()
			if !middle {
				begin()
			}
			program.Continue(t)
			truth := program.Truth(t)
			r.endCapture(t)
			checkPipes(t, r.logs, truth, from)
		})
	}
}

// Each message over TCP is matched with the call that received it, and with no other, even though
//   - ports are used again at once,
//   - connections are reset, with data that nobody received, or closed in one direction,
//   - descriptors are passed to other threads.
func TestPrivilegedRough(t *testing.T) {
	privileged.Need(t)
	r := startRig(t)
	truth := conversation.Start(t, "rough", "0.0.0.0:0", seed.Of(t)%1e9, 0, 60).Truth(t)
	r.endCapture(t)
	checkPipes(t, r.logs, truth, 0)
}

// Each message is matched though programs use very many connections at the same time, close them,
// and open as many new ones without a pause.
func TestPrivilegedManyConnections(t *testing.T) {
	privileged.Need(t)
	const each = 2000 // a program may not have more descriptors on some machines
	programs := make([]*conversation.Program, 1)
	if proof.WantsFull() {
		programs = make([]*conversation.Program, 50)
	}
	r := startRig(t)
	for i := range programs {
		programs[i] = conversation.Start(t, "many", fmt.Sprintf("127.0.%d.1:0", 1+i), 0, each, 0)
	}
	var truth []conversation.Call
	for _, p := range programs {
		truth = append(truth, p.Truth(t)...)
	}
	r.endCapture(t)
	checkPipes(t, r.logs, truth, 0)
}

// Data that the kernel sent several times, because packets were lost, is one message.
func TestPrivilegedRetransmitted(t *testing.T) {
	privileged.Need(t)
	s, err := netns.NewStar(2)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	start := func(end int, args ...any) (program *conversation.Program) {
		if err := s.Do(end, func() error {
			program = conversation.Start(t, args...)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return program
	}
	r := startRig(t)
	again, from := seed.Of(t)%1e9, asm.Counter()
	server := start(1, "server", netip.AddrPortFrom(s.Addr(1), 0), again, 6, 200)
	client := start(0, "caller", server.Says(), again, 6, 200)
	client.Says() // it waits: the connections exist
	if err := s.Cut(1, true); err != nil {
		t.Fatal(err)
	}
	client.Continue(t)
	for began := time.Now(); resentPackets(t, s) < 6; time.Sleep(time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatal("nothing was sent again")
		}
	}
	if err := s.Cut(1, false); err != nil {
		t.Fatal(err)
	}
	truth := append(client.Truth(t), server.Truth(t)...)
	r.endCapture(t)
	checkMatches(t, r.logs, truth, from)
}

// resentPackets returns how many packets end 0 has sent again.
func resentPackets(t *testing.T, s *netns.Star) (n int) {
	t.Helper()
	err := s.Do(0, func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		var names []string
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			for i, name := range names {
				if words[0] == "Tcp:" && name == "RetransSegs" {
					n, err = strconv.Atoi(words[i])
				}
			}
			names = nil
			if words[0] == "Tcp:" {
				names = words
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// checkPipes compares the matches with the truth. Every message must be matched.
func checkPipes(t *testing.T, logs string, all []conversation.Call, from uint64) {
	t.Helper()
	if m, wanted, missing, lost := comparePipes(t, logs, all, from); missing > lost ||
		wanted < 1000 {
		t.Errorf("%d of %d messages are not matched, %d calls were lost: %+v", missing, wanted,
			lost, m)
	}
}

// comparePipes wants no wrong match. It returns how many messages should be matched, how many of
// them are not, and how many calls were lost.
func comparePipes(t *testing.T, logs string, all []conversation.Call, from uint64) (m Matched,
	wanted, missing, lost int) {
	t.Helper()
	segments, err := logstore.Segments(logs)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Read("n", segments)
	if err != nil {
		t.Fatal(err)
	}
	sends, receives := map[uint64][]conversation.Call{}, map[uint64][]conversation.Call{}
	l.complete = true // unless the programs sent something before the capture began
	for _, c := range all {
		l.complete = l.complete && c.Before > from
		if c.Sent {
			sends[c.Cookie] = append(sends[c.Cookie], c)
		} else {
			receives[c.Cookie] = append(receives[c.Cookie], c)
		}
	}
	truth := map[conversation.Call]conversation.Call{}
	for _, calls := range sends {
		sent, got, at := 0, 0, -1
		for i, c := range calls {
			next := receives[c.Peer]
			if c.Single {
				truth[c] = next[i]
				continue
			}
			for sent += c.Bytes; got < sent && at+1 < len(next); {
				at++
				got += next[at].Bytes
			}
			if got >= sent {
				truth[c] = next[at]
			}
		}
	}
	is := func(c conversation.Call, m Call) bool {
		return c.Cookie == m.Cookie && c.Before <= m.Hi_cycles && m.Lo_cycles <= c.After
	}
	done := map[conversation.Call]bool{}
	m = Find([]*Log{l}, func(m Match) {
		var made []conversation.Call
		for _, c := range sends[m.Send.Cookie] {
			if is(c, m.Send) && c.Bytes == int(m.Bytes) && !done[c] {
				made = append(made, c)
			}
		}
		if sends[m.Send.Cookie] == nil {
			return // of another program
		}
		if len(made) == 0 || truth[made[0]].Bytes == 0 || !is(truth[made[0]], m.Receive) {
			t.Errorf("wrong match: %+v, the truth is %+v", m, made)
			return
		}
		done[made[0]] = true
	})
	for send, receive := range truth {
		if send.Before > from && receive.Before > from {
			wanted++
			if !done[send] {
				missing++
			}
		}
	}
	t.Logf("%d messages matched of %d: %+v", len(done), wanted, m)
	return m, wanted, missing, int(l.Lost[blackbox.BufferFull])
}
