package simrun

import "math/rand/v2"

// Forked writes a complete run of a job on the nodes A to D. In this job each tuple forks and its
// branches join again. One of the branches also ends at a sink of its own. An operator has two
// instances, each of which works on many tuples at once. Some events are lost, some ids occur
// twice, and windows of tuples become new tuples.
func Forked(rng *rand.Rand, parent, name string, tuples int) error {
	const window = 4
	names := []struct {
		node int
		name string
	}{
		{0, "source/send"}, {1, "split#0/recv"}, {1, "split#0/send"}, {2, "split#1/recv"},
		{2, "split#1/send"}, {2, "left/recv"}, {2, "left/send"}, {3, "right/recv"},
		{3, "right/send"}, {3, "sink/recv"}, {3, "sink/send"}, {3, "window/send"},
		{0, "store/recv"}, {0, "audit/recv"},
	}
	var channels []Channel
	for _, n := range names {
		channels = append(channels, Channel{Node: n.node, Name: n.name})
	}
	links := Channel{Node: 3, Name: "window/link", Handler: "link"}
	const sent, left, right, sink, made, store, audit = 0, 5, 7, 9, 11, 12, 13
	log := func(channel int, at, id uint64) {
		if rng.IntN(60) > 0 {
			channels[channel].Records = append(channels[channel].Records,
				Record{Time: at, ID: id})
		}
	}
	step := func() uint64 { return 100 + rng.Uint64N(1<<(4+rng.UintN(18))) }
	now, latest := uint64(Hz), uint64(0)
	for i := range uint64(tuples) {
		id := i + 1
		if rng.IntN(50) == 0 {
			id = 1 + rng.Uint64N(id)
		}
		now += rng.Uint64N(50_000)
		log(sent, now, id)
		at := now + step()
		split := 1 + 2*rng.IntN(2)
		log(split, at, id)
		at += step()
		log(split+1, at, id)
		joined := uint64(0)
		for _, branch := range []int{left, right} {
			arrived := at + step()
			log(branch, arrived, id)
			arrived += step()
			log(branch+1, arrived, id)
			joined = max(joined, arrived+step())
			if branch == right {
				log(audit, arrived+step(), id)
			}
		}
		log(sink, joined, id)
		joined += step()
		log(sink+1, joined, id)
		latest = max(latest, joined)
		child := 1<<40 | i/window
		links.Records = append(links.Records, Record{ID: id, Child: child, IsLink: true})
		if i%window == window-1 {
			latest += step()
			log(made, latest, child)
			log(store, latest+step(), child)
		}
	}
	for i := range channels {
		InOrder(channels[i].Records)
	}
	return Write(rng, parent, name, Nodes(rng, 4), append(channels, links))
}
