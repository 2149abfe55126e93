package fleet

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
)

// nodeTape records everything that a node received for the graph since it was born. If the tape is
// played to a new node, this node does the same work. So the tape shows the CPU time of a node that
// has a machine of its own. In a simulation of thousands of nodes, the time of each node is longer,
// because the caches are full of other nodes' data.
type nodeTape struct {
	config overlay.Config // without Transport and Random
	seed   uint64
	born   time.Duration
	facts  []overlay.Fact
	heats  []overlay.Heat
	inputs []input

	from time.Duration // when the measured part of the tape begins
	sent int           // messages that the node sent since then
}

// input is a message that the node received. If message is nil, the input is a call of the node's
// method Tick.
type input struct {
	at      time.Duration
	from    overlay.Name
	message []byte
}

// nodesWithTape is roughly the number of nodes of a large fleet that have a tape.
const nodesWithTape = 20

func (w *world) tapesOf() (all []*nodeTape) {
	for _, n := range w.nodes {
		if n.tape != nil {
			all = append(all, n.tape)
		}
	}
	return all
}

// The method record adds an input to the node's tape, if the node has one.
func (n *node) record(from overlay.Name, m overlay.Message) error {
	if n.tape == nil {
		return nil
	}
	i := input{at: n.w.now, from: from}
	if m != nil {
		var err error
		if i.message, err = wire.Encode(nil, m); err != nil {
			return err
		}
	}
	n.tape.inputs = append(n.tape.inputs, i)
	return nil
}

// sendCounter counts and encodes what a node sends.
type sendCounter struct{ sent int }

func (s *sendCounter) Send(_ overlay.Name, m overlay.Message) {
	if _, err := wire.Encode(nil, m); err == nil {
		s.sent++
	}
}

// play plays a tape to a new node. It returns the CPU time of the tape's measured part. This
// includes decoding and encoding messages.
func (t *nodeTape) play() (time.Duration, error) {
	s := &sendCounter{}
	config := t.config
	config.Transport, config.Random = s, rand.New(rand.NewPCG(t.seed, 0))
	n, err := overlay.New(config)
	if err == nil {
		err = n.SetFacts(t.facts...)
	}
	if err == nil {
		err = n.SetHeats(t.born, t.heats...)
	}
	if err != nil {
		return 0, err
	}
	n.Tick(t.born)
	var began time.Duration
	measuring := false
	for _, i := range t.inputs {
		if !measuring && i.at >= t.from {
			measuring, s.sent = true, 0
			if began, err = threadTime(); err != nil {
				return 0, err
			}
		}
		if i.message == nil {
			n.Tick(i.at)
			continue
		}
		decoded, err := wire.Decode(i.message)
		if err != nil {
			return 0, err
		}
		if m, ok := decoded.(overlay.Message); ok {
			n.Receive(i.at, i.from, m)
		}
	}
	ended, err := threadTime()
	if err == nil && (!measuring || s.sent != t.sent) {
		err = fmt.Errorf("play what node %.20q received: it sent %d messages, and %d before",
			t.config.Name, s.sent, t.sent)
	}
	return ended - began, err
}

// threadTime returns the CPU time that this thread used so far.
func threadTime() (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return time.Duration(t.Nano()), err
}

// playAll plays the tapes of several sets in turns, many times. For each set, it returns the CPU
// time that a node uses in a second: the mean over the nodes. The time of one node is the median of
// its plays.
func playAll(sets ...[]*nodeTape) ([]time.Duration, error) {
	const rounds = 15
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	took := map[*nodeTape][]time.Duration{}
	for range rounds {
		for i := range nodesWithTape {
			for _, set := range sets {
				for k := i; k < len(set); k += nodesWithTape {
					d, err := set[k].play()
					if err != nil {
						return nil, err
					}
					took[set[k]] = append(took[set[k]], d)
				}
			}
		}
		runtime.GC()
	}
	means := make([]time.Duration, len(sets))
	for i, set := range sets {
		for _, t := range set {
			slices.Sort(took[t])
			means[i] += took[t][rounds/2]
		}
		means[i] = time.Duration(means[i].Seconds() / quietTime.Seconds() / float64(max(1,
			len(set))) *
			float64(time.Second))
	}
	return means, nil
}
