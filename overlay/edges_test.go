package overlay

import (
	"math/rand/v2"
	"testing"
	"time"
)

// TestAnswersSaveTicks answers a ping. The node must then not wake up when it would have repeated
// the ping, but must still wake up for the next ping.
func TestAnswersSaveTicks(t *testing.T) {
	var sent lastMessage
	n, err := New(Config{Name: "a", Degree: 2, Random: rand.New(rand.NewPCG(1, 2)),
		Transport: &sent, Outs: []Name{"b", "c"}, Ins: []Name{"b", "c"}})
	if err != nil {
		t.Fatal(err)
	}
	ticks := 0
	for now := Time(0); now < 5*PingPeriod; ticks++ {
		now = max(n.Next(), now)
		n.Tick(now)
		if ping, ok := sent.last.(Ping); ok {
			now += Time(time.Millisecond)
			n.Receive(now, sent.to, Pong{Seq: ping.Seq, OK: true})
			for _, peer := range []Name{"b", "c"} { // so that their edges stay
				n.Receive(now, peer, Ping{Seq: 1})
			}
			if n.Next() != max(n.deadline(), now+1) {
				t.Errorf("at %v: the next tick is at %v, the next deadline at %v", now, n.Next(),
					n.deadline())
			}
		}
		sent = lastMessage{}
	}
	// In this time there are about eleven pings and three other things to do.
	if ticks < 11 || ticks > 18 {
		t.Errorf("%d ticks", ticks)
	}
}
