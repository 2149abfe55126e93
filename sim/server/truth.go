package server

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/sim/agents"
)

// The name of a node, and the name of its agent in the graph, follow from the node's number.

func nameOf(n sim.Node) string { return fmt.Sprintf("n%07d", n) }

func addressOf(n sim.Node) string {
	return fmt.Sprintf("10.%d.%d.%d:7342", n>>16&255, n>>8&255, n&255)
}

func graphNameOf(n sim.Node) string {
	key := make([]byte, 32)
	binary.LittleEndian.PutUint32(key, uint32(n)+1)
	return nameOf(n) + " " + addressOf(n) + " " + base64.RawURLEncoding.EncodeToString(key)
}

// nodeOf returns the node that has the given name. The name may also be that of the node's agent in
// the graph. nodeOf returns false if no node of the world has this name.
func nodeOf(w *sim.World, name string) (sim.Node, bool) {
	name, _, _ = strings.Cut(name, " ")
	number, ok := strings.CutPrefix(name, "n")
	n, err := strconv.ParseUint(number, 10, 32)
	return sim.Node(n), ok && err == nil && int(n) < w.Joined()
}

// worldTruth says what is true of the nodes of a world. All of it is a function of the node, the
// time and the seed, so each process knows the truth about all nodes.
type worldTruth struct {
	w       *sim.World
	suspend float64 // the mean time until a counter is interrupted, in ns; 0: it never is
	liars   float64 // the part of the nodes that lie
	lie     float64 // the largest lie, in cycles
	shorter int64   // the most by which a liar makes a packet look faster, in cycles
}

const (
	epochSeed = 0xe90c
	liarSeed  = 0x11a7
	lieSeed   = 0x11a8
	jumpSeed  = 0xe90d
)

// epochOf returns the number of the epoch in which a node's counter is, from 1, and the time at
// which the next epoch begins.
func (t *worldTruth) epochOf(n sim.Node, at sim.Time) (epoch uint32, next sim.Time) {
	if t.suspend == 0 {
		return 1, sim.Never
	}
	s := sim.NewStream(t.w.Seed^epochSeed, uint64(n))
	for epoch = 1; ; epoch++ {
		next += sim.Time(math.Min(-math.Log(1-s.Float())*t.suspend, 1e17)) + 1
		if next > at {
			return epoch, next
		}
	}
}

func epochName(epoch uint32) string { return fmt.Sprint("e", epoch) }

// epochCounter is a node's counter in one epoch.
type epochCounter struct {
	of   agents.Counter
	jump uint64
}

func (t *worldTruth) counter(n sim.Node, epoch uint32) epochCounter {
	s := sim.NewStream(t.w.Seed^jumpSeed, uint64(n)<<16^uint64(epoch))
	return epochCounter{agents.CounterOf(t.w, n), uint64(epoch)<<40 + s.Below(1<<38)}
}

func (c *epochCounter) at(t sim.Time) uint64 { return c.of.At(t) + c.jump }

// lastTimeAt returns the last time at which the counter is not above the given reading. It
// considers only times before the given end.
func (c *epochCounter) lastTimeAt(reading uint64, end sim.Time) sim.Time {
	low := sim.Time(0)
	for low+1 < end {
		if middle := low + (end-low)/2; c.at(middle) <= reading {
			low = middle
		} else {
			end = middle
		}
	}
	return low
}

// isLiar reports whether a node reports false stamps.
func (t *worldTruth) isLiar(n sim.Node) bool {
	if t.liars == 0 {
		return false
	}
	s := sim.NewStream(t.w.Seed^liarSeed, uint64(n))
	return s.Float() < t.liars
}

// smallestLie is the size of the smallest lie, in cycles. The sizes of lies differ by several
// powers of ten.
const smallestLie = 1300

// stampFor returns the function that gives a node's stamps of packets that it exchanges with a
// peer. A liar shows each peer a different false counter, and makes each packet look faster than it
// was.
func (t *worldTruth) stampFor(n, peer sim.Node, epoch uint32) agents.Stamp {
	c := t.counter(n, epoch)
	if !t.isLiar(n) {
		return func(at sim.Time, _ bool) uint64 { return c.at(at) }
	}
	s := sim.NewStream(t.w.Seed^lieSeed, uint64(n))
	off := smallestLie * math.Pow(max(t.lie/smallestLie, 1), s.Float())
	shorter := int64(s.Float() * float64(t.shorter))
	s = sim.NewStream(t.w.Seed^lieSeed, uint64(n)<<32|uint64(peer))
	moved := int64(off * (2*s.Float() - 1))
	return func(at sim.Time, leaves bool) uint64 {
		if leaves {
			return c.at(at) + uint64(moved+shorter)
		}
		return c.at(at) + uint64(moved-shorter)
	}
}
