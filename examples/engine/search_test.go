package engine

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/generator"
)

// The warm-up ends only when all of its events have come out. Otherwise the first trial would count
// them. The connection stays open for the trials.
func TestWarmUpLeavesNothingBehind(t *testing.T) {
	var out Counter
	l := listen(t, out.Done)
	in, back := dial(t, l.Port), dial(t, l.BackPort)
	seen := make(chan int64, 1)
	go func() { // the engine
		n := int64(0)
		defer func() { seen <- n }()
		for lines := bufio.NewScanner(in); lines.Scan(); n++ {
			var e struct{ ID uint64 }
			if json.Unmarshal(lines.Bytes(), &e) != nil {
				return
			}
			if n == 0 {
				// With this delay, events are left in the engine when the sender ends.
				time.Sleep(20 * time.Millisecond)
			}
			fmt.Fprintln(back, e.ID)
		}
	}()
	if err := l.Connected(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	events, err := Events(true)
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{load: l}
	// With small buffers, the connection has no room for the last events when the sender ends.
	if !s.connected() {
		t.Fatal("no source is connected")
	}
	if err := errors.Join(s.conn.SetWriteBuffer(1<<16),
		in.(*net.TCPConn).SetReadBuffer(1<<16)); err != nil {
		t.Fatal(err)
	}
	// On a busy machine, a sender may not run at all within its 5 ms, and then it sends nothing.
	for out.Load() == 0 {
		if err := warmUp(t.Context(), 5*time.Millisecond, events, []*sink{s}, &out); err != nil {
			t.Fatal(err)
		}
	}
	after := out.Load()
	if err := offer(s, numberedEvents(1, 0, 1), nothing); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(generator.End{}); err != nil {
		t.Fatal(err)
	}
	if n := <-seen; n != after+1 {
		t.Fatalf("the warm-up ended after %d events, and the engine got %d with one more",
			after, n)
	}
}
