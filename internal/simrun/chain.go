package simrun

import (
	"fmt"
	"math/rand/v2"
)

// Chain writes a complete run, in which each tuple passes one channel on each node in turn. There
// are perSecond tuples a second. Each hop takes tens of µs, and tuples arrive in the order in which
// they were sent. Chain keeps no tuples in memory, so runs may be large.
func Chain(seed uint64, parent, name string, nodes, tuples, perSecond int) error {
	rng := rand.New(rand.NewPCG(seed, 1))
	all := Nodes(rng, nodes)
	length := uint64(tuples) * Hz / uint64(perSecond)
	begin := uint64(2 * Hz)
	d, err := Begin(rng, parent, name, all, begin-Hz, begin+length+length/10+2*Hz)
	if err != nil {
		return err
	}
	logs := make([]*Log, nodes)
	for i := range logs {
		if logs[i], err = OpenLog(d, &all[i], fmt.Sprintf("stage%d/recv", i), "", i); err != nil {
			return err
		}
	}
	gap := uint64(Hz / perSecond)
	arrived := make([]uint64, nodes)
	t := begin
	for id := range uint64(tuples) {
		t += gap/2 + rng.Uint64N(gap)
		at := t
		for i := range logs {
			if i > 0 {
				at += 50_000 + rng.Uint64N(1<<rng.UintN(16))
			}
			at = max(at, arrived[i]+60) // a connection delivers in order
			arrived[i] = at
			if err := logs[i].Event(at, 1<<50|id); err != nil {
				return err
			}
		}
	}
	for _, l := range logs {
		if err := l.Seal(); err != nil {
			return err
		}
	}
	_, err = d.Complete()
	return err
}
