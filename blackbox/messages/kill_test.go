package messages

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
	"github.com/cloudprofiler/cloudprofiler/drain"
	"github.com/cloudprofiler/cloudprofiler/internal/conversation"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

const capturerVariable = "CLOUDPROFILER_TEST_CAPTURER"

// capturerMain captures like an agent until it is killed. Again and again, it prints a reading of
// the counter, and then flushes. So when it prints the next line, all messages up to this reading
// are in the ring.
func capturerMain(dir string) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	rings := filepath.Join(dir, "rings")
	_, err := drain.Start(rings, drain.Options{Logs: filepath.Join(dir, "logs"), Node: "n"})
	must(err)
	c, err := capture.Start(capture.Options{Dir: rings})
	must(err)
	for {
		fmt.Println(asm.Counter())
		c.Flush()
		time.Sleep(5 * time.Millisecond)
	}
}

// A shift is the time in which a capturer ran, from its first line to its last but one. All calls
// that ended in this time are in the log.
type shift struct{ from, to uint64 }

// runCapturer starts a capturer, and waits until it captures. Then it calls the function that is
// named meanwhile. When that function returns, runCapturer kills the capturer. The parameter
// flushed is a function that waits until all messages so far are in the ring.
func runCapturer(t *testing.T, dir string, meanwhile func(flushed func())) (s shift) {
	t.Helper()
	cmd, err := reexec.Command()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env, cmd.Stderr = append(os.Environ(), capturerVariable+"="+dir), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	says := bufio.NewScanner(out)
	// When the capturer is killed, it may not have finished the flush of its last line.
	var before, last uint64
	next := func() bool {
		if !says.Scan() {
			return false
		}
		before = last
		_, err := fmt.Sscan(says.Text(), &last)
		return err == nil
	}
	next()
	s.from = last
	meanwhile(func() {
		for now := asm.Counter(); before <= now && next(); {
		}
	})
	cmd.Process.Kill()
	for next() {
	}
	s.to = before
	cmd.Wait()
	return s
}

// Agents and programs are killed while messages are captured. No message is logged twice or matched
// wrongly. The log has all messages that an agent has put into the ring.
func TestPrivilegedKills(t *testing.T) {
	privileged.Need(t)
	kills := 3
	if os.Getenv("CLOUDPROFILER_PROOF") == "full" {
		kills = 300
	}
	random := seed.Random(t)
	dir := t.TempDir()
	var shifts []shift
	var truth []conversation.Call
	to := map[conversation.Call]conversation.Call{} // the receiver of each call's last byte
	for i := range kills {
		again := random.Uint64N(1e9)
		killProgram := i%3 == 2
		var server, client *conversation.Program
		var both []conversation.Call
		start := func() {
			server = conversation.Start(t, "server", "127.0.0.1:0", again, 6, 60)
			client = conversation.Start(t, "client", server.Says(), again, 6, 60)
		}
		if i%2 == 0 {
			start()
		}
		shifts = append(shifts, runCapturer(t, dir, func(flushed func()) {
			if i%2 == 1 {
				start()
			}
			if i == 1 { // all calls of this round must be in the log
				both = append(client.Truth(t), server.Truth(t)...)
				flushed()
				return
			}
			time.Sleep(time.Duration(10+random.IntN(150)) * time.Millisecond)
			if killProgram {
				client.Kill()
			}
		}))
		if killProgram {
			server.Kill() // the kill leaves unknown what the two have said
			continue
		}
		if both == nil {
			both = append(client.Truth(t), server.Truth(t)...)
		}
		truth = append(truth, both...)
		maps.Copy(to, findReceivers(both))
	}
	// The last drainer logs what is left in the rings.
	d, err := drain.Start(filepath.Join(dir, "rings"),
		drain.Options{Logs: filepath.Join(dir, "logs"), Node: "n"})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	checkKilled(t, filepath.Join(dir, "logs"), truth, to, shifts)
}

func checkKilled(t *testing.T, dir string, truth []conversation.Call,
	to map[conversation.Call]conversation.Call, shifts []shift) {
	t.Helper()
	segments, err := logstore.Segments(dir)
	if err != nil {
		t.Fatal(err)
	}
	var logs []*Log
	lost := uint64(0)
	for len(segments) > 0 {
		one := logstore.SegmentsOf(segments, segments[0].Channel, segments[0].Incarnation)
		segments = segments[len(one):]
		l, err := Read("n", one)
		if err != nil {
			t.Fatal(err)
		}
		logs = append(logs, l)
		lost += l.Lost[blackbox.BufferFull] + l.Dropped
	}
	type place struct {
		cookie, position uint64
		sent             bool
	}
	seen := map[place]end{}
	for _, l := range logs {
		for cookie, s := range l.sockets {
			for i, calls := range [][]end{s.sends, s.receives} {
				for _, e := range calls {
					p := place{cookie, e.position, i == 0}
					if _, twice := seen[p]; twice && s.of.Protocol == blackbox.TCP {
						t.Errorf("%+v is logged twice", p)
					}
					seen[p] = e
				}
			}
		}
	}
	type direction struct {
		cookie uint64
		sent   bool
	}
	inLog := map[direction]int{}
	for p, e := range seen {
		for _, s := range shifts {
			if e.ended > s.from && e.began < s.to {
				inLog[direction{p.cookie, p.sent}]++
			}
		}
	}
	must, count, missing := map[direction]int{}, 0, 0 // calls that must be in the log
	for _, c := range truth {
		for _, s := range shifts {
			if c.Before > s.from && c.After < s.to {
				must[direction{c.Cookie, c.Sent}]++
				count++
			}
		}
	}
	for k, n := range must {
		missing += max(n-inLog[k], 0)
	}
	if uint64(missing) > lost || count == 0 {
		t.Errorf("%d of %d calls are not in the log, %d were counted as lost", missing, count, lost)
	}
	wrong := 0
	byCookie := map[uint64][]conversation.Call{}
	for c := range to {
		byCookie[c.Cookie] = append(byCookie[c.Cookie], c)
	}
	is := func(c conversation.Call, m Call) bool {
		return c.Cookie == m.Cookie && c.Before <= m.Hi_cycles && m.Lo_cycles <= c.After
	}
	m := Find(logs, func(m Match) {
		right, known := false, false
		for _, c := range byCookie[m.Send.Cookie] {
			if is(c, m.Send) {
				known = true
				right = right || is(to[c], m.Receive)
			}
		}
		if known && !right {
			wrong++
		}
	})
	if wrong > 0 {
		t.Errorf("%d matches are wrong", wrong)
	}
	t.Logf("%d kills, %d logs, %d calls had to be in them: %d not, %d lost; %d matched",
		len(shifts), len(logs), count, missing, lost, m.Matched)
}
