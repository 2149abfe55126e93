package messages

import (
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/asm"
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

// findReceivers finds, in the truth, the call that received the last byte of each sending call.
func findReceivers(truth []conversation.Call) map[conversation.Call]conversation.Call {
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
// is matched with the call that received its last byte, and with no other. This also holds if the
// capture begins in the middle of the conversation.
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

		middle, light bool
	}{
		"loopback":   {at: netip.MustParseAddr("127.0.0.1"), do: here},
		"namespaces": {at: p.Addr(1), do: p.Do},
		"middle":     {at: netip.MustParseAddr("127.0.0.1"), do: here, middle: true},
		"light":      {at: netip.MustParseAddr("127.0.0.1"), do: here, light: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			rings, logs := filepath.Join(dir, "rings"), filepath.Join(dir, "logs")
			d, err := drain.Start(rings, drain.Options{Logs: logs, Node: "n"})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			start := func(end int, args ...any) (program *conversation.Program) {
				if err := place.do(end, func() error {
					program = conversation.Start(t, args...)
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				return program
			}
			again, messages := seed.Of(t)%1e9, 200
			server := start(1, "server", netip.AddrPortFrom(place.at, 0), again, 6, messages)
			at := server.Says()
			var client *conversation.Program
			if place.middle {
				client = start(0, "caller", at, again, 6, messages)
				client.Says()
			}
			c, err := capture.Start(capture.Options{
				Dir: rings, Also: capture.Also{Arrivals: true}, Light: place.light,
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			from := asm.Counter()
			if place.middle {
				client.Continue(t)
			} else {
				client = start(0, "client", at, again, 6, messages)
			}
			truth := append(client.Truth(t), server.Truth(t)...)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
			checkMatches(t, logs, truth, from)
		})
	}
}

// checkMatches compares the matches with the truth. A message must be matched if both of its calls
// began after a given reading of the counter.
func checkMatches(t *testing.T, logs string, all []conversation.Call, from uint64) {
	t.Helper()
	segments, err := logstore.Segments(logs)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Read("n", segments)
	if err != nil {
		t.Fatal(err)
	}
	truth := findReceivers(all)
	type side struct {
		cookie uint64
		sent   bool
	}
	length := map[side]uint64{}
	offsets := map[conversation.Call]uint64{} // in their streams
	sends := map[uint64]map[uint64]conversation.Call{}
	for _, c := range all {
		s := side{c.Cookie, c.Sent}
		offsets[c] = length[s]
		if c.Sent {
			if sends[c.Cookie] == nil {
				sends[c.Cookie] = map[uint64]conversation.Call{}
			}
			sends[c.Cookie][length[s]] = c
		}
		length[s] += uint64(c.Bytes)
	}
	is := func(c conversation.Call, m Call) bool {
		return c.Cookie == m.Cookie && c.Before <= m.Hi_cycles && m.Lo_cycles <= c.After
	}
	found := map[uint64][]Match{} // by the socket that sent
	others := 0                   // of other programs of this machine
	m := match([]*Log{l}, sameNode, func(m Match) {
		if sends[m.Send.Cookie] == nil {
			others++
			return
		}
		found[m.Send.Cookie] = append(found[m.Send.Cookie], m)
	})
	ours, arrived, bounded := map[conversation.Call]bool{}, 0, 0
	for cookie, matches := range found {
		// The test does not know the stream's first position. It takes the position with which the
		// most matches fit calls of the truth.
		votes := map[uint64]int{}
		for _, m := range matches {
			for offset, c := range sends[cookie] {
				if is(c, m.Send) && c.Bytes == int(m.Bytes) {
					votes[m.Send.Position-offset]++
				}
			}
		}
		var begins uint64
		for position, n := range votes {
			if n > votes[begins] {
				begins = position
			}
		}
		for _, m := range matches {
			c, made := sends[cookie][m.Send.Position-begins]
			if !made || ours[c] || c.Bytes != int(m.Bytes) || !is(c, m.Send) {
				t.Errorf("nobody made the call of %+v: the truth is %+v", m, c)
				continue
			}
			ours[c] = true
			first, known := m.beginning()
			if known {
				bounded++
			}
			if known && (first.Lo_cycles > c.After || first.Hi_cycles < c.Before ||
				!m.Send.Early && first.Lo_cycles > c.Before) {
				t.Errorf("%+v did not begin when the capture says", c)
			}
			if m.arrivedLo != 0 {
				arrived++
				if known && m.arrivedHi < first.Lo_cycles || m.arrivedLo > m.Receive.Hi_cycles {
					t.Errorf("%+v did not arrive between the two calls", m)
				}
			}
			if r := truth[c]; !is(r, m.Receive) || offsets[r] != m.Receive.Position-begins {
				t.Errorf("wrong match: %+v, was received by %+v", m, r)
			}
		}
	}
	lost, missing, wanted := l.Lost[blackbox.BufferFull], uint64(0), 0
	for send, receive := range truth {
		if send.Before > from && receive.Before > from {
			wanted++
			if !ours[send] {
				missing++
			}
		}
	}
	if missing > lost || wanted < 500 {
		t.Errorf("%d of %d messages are not matched, %d were lost: %+v", missing, wanted, lost, m)
	}
	if arrived == 0 {
		t.Error("no arrival was seen")
	}
	if 2*bounded < len(ours) {
		t.Errorf("the beginnings of %d of %d calls are bounded", bounded, len(ours))
	}
	t.Logf("%d messages matched, %d with their arrival and %d with their beginning, and %d of "+
		"other programs", len(ours), arrived, bounded, others)
}
