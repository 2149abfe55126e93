package simrun

import (
	"errors"
	"math/rand/v2"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// Suspect makes a run of 100 tuples on two nodes, A and B. On each node, a channel with the handler
// first-last also logs when the run began and ended. From 20 s on, B runs faster by 6 ppm. This
// change is larger than the declared wander, so the relation is suspect. But the change is too
// small for the relation to be refused.
func Suspect(rng *rand.Rand, parent, name string) error {
	nodes := Nodes(rng, 2)
	d, err := Begin(rng, parent, name, nodes, Hz, 20*Hz)
	if err != nil {
		return err
	}
	faster := nodes[1]
	faster.Rate += 6000 // in parts per 10^9
	faster.Start += nodes[1].Reading(20*Hz) - faster.Reading(20*Hz)
	pair, err := Relate(rng, &nodes[0], &nodes[1], Hz, 20*Hz)
	if err != nil {
		return err
	}
	if err := errors.Join(Measure(rng, pair, &nodes[0], &faster, 21*Hz, 40*Hz),
		d.PutRelation(pair)); err != nil {
		return err
	}
	for i, name := range []string{"a/send", "b/recv"} {
		l, err := OpenLog(d, &nodes[i], name, "", i)
		if err != nil {
			return err
		}
		for id := range uint64(100) {
			if err := l.Event(10*Hz+id*1000+uint64(i)*100_000, id); err != nil {
				return err
			}
		}
		if err := l.Seal(); err != nil {
			return err
		}
		bounds, err := OpenLog(d, &nodes[i], []string{"source/send", "sink/recv"}[i], "first-last",
			2+i)
		if err != nil {
			return err
		}
		row := logstore.FirstLast{Count: 100, FirstCounter: nodes[i].Reading(10 * Hz), LastID: 99,
			LastCounter: nodes[i].Reading(11 * Hz), Poison: uint64(i) * nodes[i].Reading(12*Hz)}
		if err := errors.Join(bounds.Append(logstore.Block{FirstLasts: []logstore.FirstLast{row}}),
			bounds.Seal()); err != nil {
			return err
		}
	}
	_, err = d.Complete()
	return err
}
