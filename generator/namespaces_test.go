package generator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/netns"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

// betweenNamespaces runs a sender in one namespace and a receiver in another. ZeroMQ's sockets are
// in the namespace of the thread that makes their context.
func betweenNamespaces(
	t *testing.T, push PushOptions, o SenderOptions, ro ReceiverOptions,
) (
	cut func(bool),
	sender *Sender,
	sent func() (SenderResult, error),
	received func() ReceiverResult,
) {
	t.Helper()
	privileged.Need(t)
	star, err := netns.NewStar(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(star.Close)
	var pull *Pull
	err = star.Do(1, func() (err error) {
		pull, err = NewPull(fmt.Sprintf("tcp://%s:*", star.Addr(1)), PullOptions{HighWater: 10})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	connect := func(push PushOptions) (sink Sink, err error) {
		err = star.Do(0, func() (err error) {
			sink, err = NewPush(t.Context(), pull.Endpoint(), push)
			return err
		})
		return sink, err
	}
	sender, sent, received = startBetween(t, pull, push, o, ro, connect)
	cut = func(cut bool) {
		if err := star.Cut(1, cut); err != nil {
			t.Fatal(err)
		}
	}
	for sender.Sent() < 1000 {
		time.Sleep(time.Millisecond)
	}
	return cut, sender, sent, received
}

// If a link goes away and comes back, the run takes longer, but no tuple is lost. While the link is
// away, both ends report that.
func TestPrivilegedLinkCutAndHealed(t *testing.T) {
	senderSays, receiverSays := newNoticed(), newNoticed()
	cut, _, sent, received := betweenNamespaces(t, PushOptions{HighWater: 10},
		SenderOptions{
			Schedule: mustSchedule(t, "constant:20000x2s"), GiveUp: 30 * time.Second,
			Notice: senderSays.say,
		},
		ReceiverOptions{Silence: 60 * time.Second, Notice: receiverSays.say})
	cut(true)
	blocked := senderSays.waitForMark(t, Blocked)
	silent := receiverSays.waitForMark(t, SenderGone)
	cut(false)
	again := senderSays.waitForMark(t, Blocked)
	s, err := sent()
	wantHealed(t, s, err, received())
	t.Logf("%v, %v, %v", blocked, silent, again)
}

// If a link goes down and stays down, the sender and the receiver end, and each reports its counts
// and marks.
func TestPrivilegedLinkStaysAway(t *testing.T) {
	cut, _, sent, received := betweenNamespaces(t,
		PushOptions{HighWater: 10, Patience: time.Second},
		SenderOptions{
			Schedule: mustSchedule(t, "constant:20000x2s"), GiveUp: 500 * time.Millisecond,
			Notice: newNoticed().say,
		},
		ReceiverOptions{Silence: 2 * time.Second})
	cut(true)
	s, err := sent()
	r := received()
	if err == nil || !strings.Contains(err.Error(), "does not know of the end") {
		t.Errorf("error %v, want one that says that the receiver does not know of the end", err)
	}
	if s.Skipped+s.Unsent == 0 || s.Scheduled != s.Sent+s.Skipped+s.Unsent ||
		!has(s.Marks, Blocked) || !has(s.Marks, Unsent) {
		t.Errorf("of %d sent %d, skipped %d, %d unsent, marks %v",
			s.Scheduled, s.Sent, s.Skipped, s.Unsent, s.Marks)
	}
	if r.Received > s.Sent || r.Whole() || r.Ended != 0 || !has(r.Marks, SenderGone) {
		t.Errorf("received %+v of %d sent, marks %v", r.Check, s.Sent, r.Marks)
	}
}
