package messages

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/internal/conversation"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

func TestMain(m *testing.M) {
	if os.Getenv(conversation.Variable) != "" {
		conversation.Main()
		return
	}
	if dir := os.Getenv(capturerVariable); dir != "" {
		capturerMain(dir)
		return
	}
	os.Exit(leak.Main(m))
}

// received finds, in the truth, the call that received the last byte of each call that sent.
func received(truth []conversation.Call) map[conversation.Call]conversation.Call {
	type stream struct{ from, to int }
	sends, receives := map[stream][]conversation.Call{}, map[stream][]conversation.Call{}
	for _, c := range truth {
		if s := (stream{c.Ports[0], c.Ports[1]}); c.Sent {
			sends[s] = append(sends[s], c)
		} else {
			receives[stream{s.to, s.from}] = append(receives[stream{s.to, s.from}], c)
		}
	}
	to := map[conversation.Call]conversation.Call{}
	for s, calls := range sends {
		sent, got, next := 0, 0, receives[s]
		for _, c := range calls {
			sent += c.Bytes
			for got < sent {
				got, to[c], next = got+next[0].Bytes, next[0], next[1:]
			}
			if _, done := to[c]; !done { // the call before took its last byte, too
				to[c] = receives[s][len(receives[s])-len(next)-1]
			}
		}
	}
	return to
}

// Between two namespaces and over loopback, each message that one program sent and another received
// is matched with the call that received its last byte, and with no other.
func TestPrivilegedMatchIsTheTruth(t *testing.T) {
	privileged.Need(t)
	p, err := netns.NewPair()
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	here := func(_ int, f func() error) error { return f() }
	for name, place := range map[string]struct {
		at netip.Addr
		do func(end int, f func() error) error
	}{
		"loopback":   {netip.MustParseAddr("127.0.0.1"), here},
		"namespaces": {p.Addr(1), p.Do},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rings, logs := filepath.Join(dir, "rings"), filepath.Join(dir, "logs")
			d, err := drain.Start(rings, drain.Options{Logs: logs, Node: "n"})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			c, err := capture.Start(capture.Options{Dir: rings})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			start := func(end int, args ...any) (program *conversation.Program) {
				if err := place.do(end, func() error {
					program = conversation.Start(t, args...)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				return program
			}
			again := seed.Of(t) % 1e9
			server := start(1, "server", netip.AddrPortFrom(place.at, 0), again, 6, 200)
			client := start(0, "client", server.Says(), again, 6, 200)
			truth := received(append(client.Truth(t), server.Truth(t)...))
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			checkMatches(t, logs, truth)
		})
	}
}

func checkMatches(t *testing.T, logs string, truth map[conversation.Call]conversation.Call) {
	t.Helper()
	segments, err := logstore.Segments(logs)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Read("n", segments)
	if err != nil {
		t.Fatal(err)
	}
	calls := map[uint64][]conversation.Call{} // by socket, in order
	for c := range truth {
		calls[c.Cookie] = append(calls[c.Cookie], c)
	}
	is := func(c conversation.Call, m Call) bool {
		return c.Cookie == m.Cookie && c.Before <= m.Hi_cycles && m.Lo_cycles <= c.After
	}
	ours := map[conversation.Call]bool{}
	var others uint64
	m := match([]*Log{l}, func(m Match) {
		if calls[m.Send.Cookie] == nil {
			others++ // other programs of this machine
			return
		}
		found := false
		for _, c := range calls[m.Send.Cookie] {
			if is(c, m.Send) && c.Bytes == int(m.Bytes) && !ours[c] {
				found, ours[c] = true, true
				if !is(truth[c], m.Receive) {
					t.Errorf("wrong match: %+v, was received by %+v", m, truth[c])
				}
				break
			}
		}
		if !found {
			t.Errorf("nobody made the call of %+v", m)
		}
	})
	lost := l.Lost[blackbox.BufferFull]
	if missing := uint64(len(truth) - len(ours)); missing > lost || len(truth) < 1000 {
		t.Errorf("%d of %d messages are not matched, %d were lost: %+v", missing, len(truth), lost,
			m)
	}
	t.Logf("%d messages matched, and %d of other programs", len(ours), others)
}
