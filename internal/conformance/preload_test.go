package conformance

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// captured runs a program with the library that captures its messages, and returns the program's
// output and the number of messages in the logs. The argument program contains the program's name
// and its arguments. The result dropped counts messages for which there was no room.
func captured(t *testing.T, program string, libraries ...string) (out string,
	kinds map[blackbox.Kind]uint64, dropped uint64) {
	t.Helper()
	built, dir := buildC(t), t.TempDir()
	rings, logs := filepath.Join(dir, "rings"), filepath.Join(dir, "logs")
	d, err := drain.Start(rings, drain.Options{Logs: logs})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	out = preloaded(t, built, rings, program, libraries...)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	kinds = map[blackbox.Kind]uint64{}
	segments, err := logstore.Segments(logs)
	if err != nil {
		t.Fatal(err)
	}
	for len(segments) > 0 {
		one := logstore.SegmentsOf(segments, segments[0].Channel, segments[0].Incarnation)
		segments = segments[len(one):]
		dropped += countMessages(t, one, kinds)
	}
	return out, kinds, dropped
}

// preloaded runs a program with libraries.
func preloaded(t *testing.T, built, rings, program string, libraries ...string) string {
	t.Helper()
	for i, l := range libraries {
		libraries[i] = filepath.Join(built, l)
	}
	words := strings.Fields(program)
	cmd := exec.Command(filepath.Join(built, words[0]), words[1:]...)
	cmd.Env = append(os.Environ(), ring.DirectoryVariable+"="+rings,
		"LD_PRELOAD="+strings.Join(libraries, ":"))
	cmd.Stderr = os.Stderr
	printed, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return string(printed)
}

// A program opens and closes connections without a pause, passes descriptors to itself, and has
// many sockets at once. Even so, each of its messages is in a log or counted.
func TestPreloadSeesManyConnections(t *testing.T) {
	connections := 2000
	if os.Getenv("CLOUDPROFILER_PROOF") == "full" {
		connections = 100_000
	}
	out, kinds, dropped := captured(t, fmt.Sprint("preload_many ", connections),
		"libcloudprofiler-capture.so")
	var sent, received uint64
	if _, err := fmt.Sscan(out, &sent, &received); err != nil || sent < 3*uint64(connections) {
		t.Fatalf("the program printed %q: %v", out, err)
	}
	if s, r := kinds[blackbox.Sent], kinds[blackbox.Received]; s > sent || r > received ||
		s+r+dropped < sent+received {
		t.Errorf("%d calls sent, %d received: the logs have %d and %d, %d were dropped", sent,
			received, s, r, dropped)
	}
	t.Logf("%d calls sent, %d received, %d dropped", sent, received, dropped)
}

// A program that writes random words into its own ring harms only the record of its own messages.
// The program continues, and the drainer keeps each message of the other programs.
func TestPreloadedProgramScribbles(t *testing.T) {
	const library = "libcloudprofiler-capture.so"
	built, dir := buildC(t), t.TempDir()
	rings, logs := filepath.Join(dir, "rings"), filepath.Join(dir, "logs")
	said := make(chan error, 1000)
	d, err := drain.Start(rings, drain.Options{Logs: logs, Notify: func(err error) {
		select {
		case said <- err:
		default:
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	preloaded(t, built, rings, "preload_scribble x", library)
	preloaded(t, built, rings, "preload_scribble", library)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	segments, err := logstore.Segments(logs)
	if err != nil {
		t.Fatal(err)
	}
	close(said)
	damaged := false
	for err := range said {
		t.Log(err)
		damaged = damaged || strings.Contains(err.Error(), "damaged ring")
	}
	if !damaged {
		t.Error("nobody says that a ring is damaged")
	}
	whole := 0
	for len(segments) > 0 {
		one := logstore.SegmentsOf(segments, segments[0].Channel, segments[0].Incarnation)
		segments = segments[len(one):]
		c := readCapture(one)
		n := c.kinds[blackbox.Sent] + c.kinds[blackbox.Received]
		t.Logf("%d messages, %d dropped, %+v", n, c.dropped, c.report)
		// A message has two events, and one or both of them are dropped while the ring is full.
		missing := 60_000 - n
		if n <= 60_000 && missing <= c.dropped && c.dropped <= 2*missing && c.report.Whole() {
			whole++
		}
	}
	if whole == 0 {
		t.Error("no log has or counts all messages of the program that does not scribble")
	}
}

// A capturedLog is the content of a log of captured messages: counts, the names of hosts, and the
// report on the log.
type capturedLog struct {
	kinds   map[blackbox.Kind]uint64 // messages
	dropped uint64                   // events that were dropped while the ring was full
	lost    uint64                   // messages that the program counted as lost
	bad     uint64                   // events that are no records
	names   []blackbox.HostName
	report  logstore.Report
}

func readCapture(one []logstore.Segment) capturedLog {
	r := logstore.ReadLog(one)
	defer r.Close()
	c := capturedLog{kinds: map[blackbox.Kind]uint64{}}
	decoders := map[int]*blackbox.Decoder{}
	for {
		b, err := r.Next()
		if err != nil {
			break
		}
		for _, d := range b.Drops {
			c.dropped += d.Count
		}
		if decoders[b.Shard] == nil {
			decoders[b.Shard] = &blackbox.Decoder{}
		}
		for _, e := range b.Events {
			v := decoders[b.Shard].Add(blackbox.Event{Counter_cycles: e.Counter, ID: e.ID})
			switch v := v.(type) {
			case blackbox.Message:
				c.kinds[v.Kind]++
			case blackbox.HostName:
				c.names = append(c.names, v)
			case blackbox.Loss:
				c.lost += v.Messages
			}
		}
	}
	for _, d := range decoders {
		d.End()
		c.bad += uint64(d.Bad)
	}
	c.report = r.Report()
	return c
}

// countMessages adds the messages of a log to kinds, and wants the log to be whole.
func countMessages(t *testing.T, one []logstore.Segment, kinds map[blackbox.Kind]uint64) (
	dropped uint64) {
	t.Helper()
	c := readCapture(one)
	if c.bad > 0 {
		t.Errorf("%d events are no records", c.bad)
	}
	if !c.report.Whole() {
		t.Errorf("the log is not whole: %+v", c.report)
	}
	for kind, n := range c.kinds {
		kinds[kind] += n
	}
	return c.dropped + c.lost
}

// A program that uses its sockets in unusual ways (see preload_rough.c) works as it does without
// the library. Each of its messages is in a log or counted as lost.
func TestPreloadSeesWhatARoughProgramDoes(t *testing.T) {
	out, kinds, dropped := captured(t, "preload_rough", "libcloudprofiler-capture.so")
	var sent, received uint64
	if _, err := fmt.Sscan(out, &sent, &received); err != nil || sent < 10_000 {
		t.Fatalf("the program printed %q: %v", out, err)
	}
	if s, r := kinds[blackbox.Sent], kinds[blackbox.Received]; s > sent || r > received ||
		s+r+dropped < sent+received {
		t.Errorf("%d calls sent, %d received: the logs have %d and %d, %d were dropped", sent,
			received, s, r, dropped)
	}
	t.Logf("%d calls sent, %d received, %d dropped", sent, received, dropped)
}

// The log has the names by which a program found the addresses of its connections, and no name that
// the program did not ask for.
func TestPreloadNamesAddresses(t *testing.T) {
	built, dir := buildC(t), t.TempDir()
	rings, logs := filepath.Join(dir, "rings"), filepath.Join(dir, "logs")
	d, err := drain.Start(rings, drain.Options{Logs: logs})
	if err != nil {
		t.Fatal(err)
	}
	out := preloaded(t, built, rings, "preload_names", "libcloudprofiler-capture.so",
		"preload_hosts.so")
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	segments, err := logstore.Segments(logs)
	if err != nil {
		t.Fatal(err)
	}
	c := readCapture(segments)
	var process uint32
	if _, err := fmt.Sscan(out, &process); err != nil || c.bad > 0 {
		t.Fatalf("the program printed %q, %d bad events: %v", out, c.bad, err)
	}
	got := map[string]string{}
	for _, n := range c.names {
		if n.Source != blackbox.Asked || n.Process != process {
			t.Errorf("%+v", n)
		}
		got[n.Address.String()] += n.Name
	}
	want := map[string]string{"127.0.0.2": "db.example", "127.0.0.3": "cache.example"}
	if !maps.Equal(got, want) {
		t.Errorf("names %v, want %v", got, want)
	}
}

// readMessages reads the captures of all programs.
func readMessages(t *testing.T, logs string) (all []*messages.Log) {
	t.Helper()
	segments, err := logstore.Segments(logs)
	if err != nil {
		t.Fatal(err)
	}
	for len(segments) > 0 {
		one := logstore.SegmentsOf(segments, segments[0].Channel, segments[0].Incarnation)
		segments = segments[len(one):]
		l, err := messages.Read("n", one)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// Messages over UDP and UNIX sockets are matched in the same way as messages that the kernel
// captures: each with the call that received it.
func TestPreloadMatchesMessagesOutsideOfTCP(t *testing.T) {
	built, dir := buildC(t), t.TempDir()
	rings, logs := filepath.Join(dir, "rings"), filepath.Join(dir, "logs")
	d, err := drain.Start(rings, drain.Options{Logs: logs, Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	out := preloaded(t, built, rings, "preload_pairs", "libcloudprofiler-capture.so")
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	m := checkPairs(t, out, readMessages(t, logs))
	if m.Twice > 0 {
		t.Errorf("%d calls were seen twice", m.Twice)
	}
}

// If the kernel and the library both capture a program, each of its messages counts once.
func TestPrivilegedPreloadBesideTheKernel(t *testing.T) {
	privileged.Need(t)
	built, dir := buildC(t), t.TempDir()
	rings, logs := filepath.Join(dir, "rings"), filepath.Join(dir, "logs")
	d, err := drain.Start(rings, drain.Options{Logs: logs, Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	c, err := capture.Start(capture.Options{
		Dir: rings, Only: capture.Filter{Programs: []string{"preload_pairs"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	out := preloaded(t, built, rings, "preload_pairs", "libcloudprofiler-capture.so")
	if err := errors.Join(c.Close(), d.Close()); err != nil {
		t.Error(err)
	}
	m := checkPairs(t, out, readMessages(t, logs))
	// Nearly every call that sent or received was seen by both, the kernel and the library.
	if all := m.Sent + m.Received; m.Twice < all*9/10 || m.Twice > all {
		t.Errorf("%d calls, %d were seen twice", all, m.Twice)
	}
}

// checkPairs checks the matches of the messages that preload_pairs exchanged with itself.
func checkPairs(t *testing.T, out string, all []*messages.Log) messages.Matched {
	t.Helper()
	var sent uint64
	if _, err := fmt.Sscan(out, &sent); err != nil {
		t.Fatal(err)
	}
	// On each socket, an answer is received before the next request is sent. So a wrong match is
	// noticed: the sizes of its two ends differ, or it is out of order.
	type pair struct{ sent, received uint64 }
	pairs := map[uint64][]pair{}
	m := messages.Find(all, func(m messages.Match) {
		s, r := &m.Send, &m.Receive
		// If s.Early is false, the call may have sent its bytes before s.Lo_cycles.
		if s.Bytes != r.Bytes || s.By.Process == r.By.Process ||
			s.Early && r.Hi_cycles < s.Lo_cycles {
			t.Errorf("%d bytes in process %d at %d were received as %d bytes in %d at %d", s.Bytes,
				s.By.Process, s.Lo_cycles, r.Bytes, r.By.Process, r.Hi_cycles)
		}
		if c := s.Connection; c.Family == blackbox.UNIX && c.Peer != 0 &&
			c.PeerProcess != s.By.Process && c.PeerProcess != r.By.Process {
			t.Errorf("%+v: another process made the peer", c)
		}
		pairs[s.Cookie] = append(pairs[s.Cookie], pair{s.Lo_cycles, r.Hi_cycles})
	})
	for cookie, p := range pairs {
		slices.SortFunc(p, func(a, b pair) int { return cmp.Compare(a.sent, b.sent) })
		if !slices.IsSortedFunc(p, func(a, b pair) int {
			return cmp.Compare(a.received, b.received)
		}) {
			t.Errorf("messages of socket %d overtook each other", cookie)
		}
	}
	// Both processes have both ends of the socketpair for streams, so its first and last messages
	// may stay without a match.
	notSure := m.Left[messages.Shared] + m.Left[messages.Unclear]
	if m.Sent != sent || m.Matched+notSure != sent || notSure > 4 {
		t.Errorf("%d messages were sent; %d are in the logs, %d are matched; the others: %v",
			sent, m.Sent, m.Matched, m.Left)
	}
	return m
}

// TestBarPreload measures how much time the library adds to a call that sends or receives. In place
// of the C library's calls, it uses calls that do nothing.
func TestBarPreload(t *testing.T) {
	repetitions := 1
	if proof.Begin(t) == proof.Full {
		repetitions = 15
	}
	var added []float64
	for range repetitions {
		bare, _, _ := captured(t, "preload_cost", "preload_stub.so")
		out, _, dropped := captured(t, "preload_cost", "libcloudprofiler-capture.so",
			"preload_stub.so")
		var off, on [2]float64
		for text, v := range map[string]*[2]float64{bare: &off, out: &on} {
			if _, err := fmt.Sscan(text, &v[0], &v[1]); err != nil {
				t.Fatalf("%q: %v", text, err)
			}
		}
		added = append(added, on[0]-off[0], on[1]-off[1])
		t.Logf("%.1f ns added to write, %.1f to read; %d dropped", on[0]-off[0], on[1]-off[1],
			dropped)
	}
	proof.Check(t, proof.Bar{
		Name: "a message, captured by the library", Limit: 60, Unit: "ns", Timing: true,
	}.From(added))
}
