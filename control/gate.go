package control

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// A gate admits a registration if the registration repeats the nonce of the last challenge on the
// same connection. Each nonce is valid for one connection, once, and for a limited time. So an
// overheard registration is worth nothing. Only one goroutine may use a gate.
type gate struct {
	now    func() time.Time
	random func([]byte)

	open  map[Peer]challenge
	order []Peer // peers in the order of their challenges; some are no longer in open
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

// admit reports whether a registration is the first answer to its connection's latest challenge.
func (g *gate) admit(peer Peer, nonce string) bool {
	c, ok := g.open[peer]
	delete(g.open, peer)
	return ok && nonce == c.nonce && g.now().Before(c.until)
}
