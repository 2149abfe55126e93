package control

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// A gate allows a connection to register if it repeats the nonce that it was given, once and in
// time. Replaying an overheard registration fails, on this and on any other connection. Only one
// goroutine may use a gate.
type gate struct {
	now    func() time.Time
	random func([]byte)

	open  map[Peer]challenge
	order []Peer // of open, oldest first; may contain peers that left open
}

type challenge struct {
	nonce string
	until time.Time
}

const (
	challengeLasts = 10 * time.Second
	maxChallenges  = 10_000
)

func newGate(now func() time.Time) *gate {
	return &gate{now: now, random: func(b []byte) { rand.Read(b) }, open: map[Peer]challenge{}}
}

func (g *gate) challenge(peer Peer) string {
	nonce := make([]byte, 16)
	g.random(nonce)
	for len(g.order) >= maxChallenges {
		delete(g.open, g.order[0])
		g.order = g.order[1:]
	}
	c := challenge{hex.EncodeToString(nonce), g.now().Add(challengeLasts)}
	g.open[peer] = c
	g.order = append(g.order, peer)
	return c.nonce
}

// admit reports whether a registration is the first answer to the last challenge of its connection.
func (g *gate) admit(peer Peer, nonce string) bool {
	c, ok := g.open[peer]
	delete(g.open, peer)
	return ok && nonce == c.nonce && g.now().Before(c.until)
}
