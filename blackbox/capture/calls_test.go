package capture

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

const lateRounds, pollTimeout_ms = 20, 20

// lateSteps receives messages that came while the receiver did something else, waited in poll, or
// was in the call that receives.
func lateSteps(s *steps) {
	client, server := s.connectedPair()
	b := make([]byte, 100)
	receiver, ask := unix.Gettid(), make(chan int)
	sent := make(chan step)
	var over atomic.Bool // the call is over: send at once
	go func() {          // it sends when the receiver is in a call
		runtime.LockOSThread()
		for call := range ask {
			for call >= 0 && !over.Load() {
				text, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/syscall", receiver))
				must(err)
				if strings.HasPrefix(string(text), fmt.Sprint(call, " ")) {
					break
				}
			}
			by := steps{}
			sent <- by.doStep("sent", client, func() (int, error) { return unix.Write(client, b) })
		}
	}()
	spin := func() {
		for from := time.Now(); time.Since(from) < 300*time.Microsecond; {
		}
	}
	read := func() {
		s.doStep("received", server, func() (int, error) { return unix.Read(server, b) })
	}
	from, counter := time.Now(), asm.Counter()
	time.Sleep(pollTimeout_ms * time.Millisecond)
	cycles, elapsed := float64(asm.Counter()-counter), time.Since(from).Seconds()
	s.all = append(s.all, step{What: "rate", N: int(cycles / elapsed)})
	for range lateRounds {
		ask <- -1
		s.all = append(s.all, <-sent)
		waitReadable(server, 100)
		s.doStep("ready", -1, func() (int, error) { return 0, nil })
		spin()
		read()

		ask <- unix.SYS_READ
		read()
		s.all = append(s.all, <-sent)

		ask <- unix.SYS_PPOLL
		s.doStep("waited", -1, func() (int, error) {
			return unix.Ppoll(nil, &unix.Timespec{Nsec: pollTimeout_ms * 1e6}, nil)
		})
		over.Store(true)
		s.all = append(s.all, <-sent)
		over.Store(false)
		waitReadable(server, 100)
		spin()
		read()
	}
}

// The log says for how long the receiver of a message did something else, while the message waited.
func TestPrivilegedCalls(t *testing.T) {
	privileged.Need(t)
	r := newRig(t, Options{Also: Also{Arrivals: true, Calls: true}})
	truth, _ := stepsOf(t, "late")
	got := r.endCapture(t)
	var cookie uint64
	for _, d := range truth {
		if d.What == "received" {
			cookie = d.Cookie
		}
	}
	busy := map[uint64]blackbox.Happening{} // by the position after the message
	for _, h := range got.happenedTo(cookie) {
		if h.What == blackbox.Busy {
			busy[h.Position] = h
		}
	}
	var next uint64
	received := func() (lo, hi uint64) {
		for _, m := range got.messages {
			if m.Kind == blackbox.Received && got.connections[m.Connection].Cookie == cookie &&
				m.Position >= next {
				next = m.Position + uint64(m.Bytes)
				h, known := busy[next]
				if !m.Arrived || !known {
					t.Fatalf("of %+v it is not known why it waited", m)
				}
				long := h.Ended_cycles - h.Began_cycles
				return long - min(long, uint64(h.Slack_cycles)), long + uint64(h.Slack_cycles)
			}
		}
		t.Fatal("a message is missing")
		return 0, 0
	}
	polls := 0
	hz := float64(truth[1].N)
	for truth = truth[2:]; len(truth) > 0; truth = truth[8:] {
		// The receiver did something else.
		sent, ready, read := truth[0], truth[1], truth[2]
		lo, hi := received()
		if hi < read.Before-ready.After || lo > read.After-sent.Before {
			t.Errorf("busy for %d to %d: %+v", lo, hi, truth[:3])
		}
		// The message came while the receiver was in the call that receives, so the receiver was
		// not busy.
		if lo, hi = received(); hi != 0 {
			t.Errorf("busy for %d to %d in a call", lo, hi)
		}
		// The receiver waited in poll until its timeout, and then did something else.
		waited, sent, read := truth[5], truth[6], truth[7]
		waits := waited.Before + uint64(hz*pollTimeout_ms/1000*0.999)
		lo, hi = received()
		if sent.After > waits {
			continue // the other thread was late
		}
		polls++
		if hi < read.Before-waited.After || lo > read.After-waits {
			t.Errorf("busy for %d to %d, it waited until %d: %+v", lo, hi, waits, truth[5:8])
		}
	}
	if polls == 0 {
		t.Errorf("in %d rounds, no message was sent in time", lateRounds)
	}
}
