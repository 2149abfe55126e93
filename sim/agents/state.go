package agents

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/overlay"
	"github.com/cloudprofiler/cloudprofiler/overlay/wire"
	"github.com/cloudprofiler/cloudprofiler/sim"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// stateVersion is the version of the state of agents in a checkpoint, which sim/FORMAT.md
// describes.
const stateVersion = 3

// Parts are the agents.
func (f *Fleet) Parts() []sim.Part { return []sim.Part{f} }

func (f *Fleet) Allocate(shard int) {
	for len(f.shards) <= shard {
		f.shards = append(f.shards, nil)
	}
	f.shards[shard] = &shardAgents{f: f, agents: make([]simulatedAgent, sim.ShardNodes),
		reported: make([]lastReport, f.observers), kept: map[sim.Node]*keptState{},
		first: make([]sim.Time, sim.ShardNodes)}
}

// Grow makes the names of all nodes, since any of them may send a message to a node of this
// process.
func (f *Fleet) Grow(shards int) {
	for len(f.names) < shards {
		var b []byte
		for i := range sim.ShardNodes {
			b = binary.BigEndian.AppendUint32(b, uint32(len(f.names)*sim.ShardNodes+i))
		}
		f.names = append(f.names, overlay.Name(b))
	}
}

func (f *Fleet) Free(shard int) { f.shards[shard] = nil }

// newCodec returns the codec that encodes messages as they travel in a real fleet. The names in
// decoded messages share the memory of the fleet's own names.
func (f *Fleet) newCodec() overlay.Codec {
	return overlay.Codec{Encode: wire.Encode, Decode: wire.Decode,
		Name: func(name overlay.Name) (overlay.Name, bool) {
			if len(name) != 4 || int(node(name)/sim.ShardNodes) >= f.w.Shards() {
				return "", false
			}
			return f.nameOf(node(name)), true
		}}
}

// Encode appends the state of a shard's agents.
func (f *Fleet) Encode(shard int, to []byte) []byte {
	s := f.shards[shard]
	le := binary.LittleEndian
	to = append(to, stateVersion, byte(len(s.reported)))
	to = le.AppendUint64(le.AppendUint64(to, s.messages), s.trains)
	for _, r := range s.reported {
		to = le.AppendUint64(le.AppendUint64(to, uint64(r.at)), r.messages)
	}
	for i := range s.agents {
		at := len(to)
		to = append(to, 0, 0, 0, 0)
		if s.agents[i].graph != nil {
			to = s.agents[i].encode(to)
		}
		le.PutUint32(to[at:], uint32(len(to)-at-4))
	}
	return to
}

func (a *simulatedAgent) encode(to []byte) []byte {
	le := binary.LittleEndian
	k := a.in.kept[a.n]
	if k == nil {
		k = &keptState{}
	}
	to = le.AppendUint32(to, k.turn)
	to = le.AppendUint64(to, uint64(a.wake))
	to = le.AppendUint64(to, uint64(a.in.first[a.n%sim.ShardNodes]))
	to = le.AppendUint64(to, a.draws.Drawn())
	to = le.AppendUint32(to, uint32(len(k.pairs)))
	for _, p := range k.pairs {
		b := p.of.Encode()
		to = le.AppendUint32(to, uint32(p.peer))
		to = le.AppendUint64(le.AppendUint64(to, uint64(p.first)), uint64(p.last))
		to = append(le.AppendUint32(to, uint32(len(b))), b...)
	}
	to, err := a.graph.AppendState(to, a.in.f.newCodec())
	if err != nil { // agents do not search
		panic(err)
	}
	return to
}

// errState is returned for a state of agents that cannot be read.
var errState = errors.New("not the state of agents")

// Decode restores the agents of a shard.
func (f *Fleet) Decode(shard int, from []byte) ([]byte, error) {
	s, in := f.shards[shard], &sim.State{Bytes: from}
	if head := in.Take(2); head[0] != stateVersion || int(head[1]) != len(s.reported) {
		return nil, fmt.Errorf("%w: version %d, %d observers: want %d and %d", errState, head[0],
			head[1], stateVersion, len(s.reported))
	}
	s.messages, s.trains = in.U64(), in.U64()
	for i := range s.reported {
		s.reported[i] = lastReport{sim.Time(in.U64()), in.U64()}
	}
	for i := range s.agents {
		length := in.U32()
		if length == 0 || in.Short {
			continue
		}
		a := f.agentOf(sim.Node(shard*sim.ShardNodes + i))
		if err := a.decode(in.Take(uint64(length))); err != nil {
			return nil, fmt.Errorf("agent %d: %w", a.n, err)
		}
	}
	if in.Short {
		return nil, errState
	}
	return in.Bytes, nil
}

func (a *simulatedAgent) decode(from []byte) error {
	if err := a.joinGraph(overlay.Config{}); err != nil {
		return err
	}
	in := &sim.State{Bytes: from}
	k := &keptState{turn: in.U32()}
	a.wake = sim.Time(in.U64())
	a.in.first[a.n%sim.ShardNodes] = sim.Time(in.U64())
	drawn := in.U64()
	for range in.U32() {
		p := &trainPair{peer: sim.Node(in.U32()), first: sim.Time(in.U64()),
			last: sim.Time(in.U64())}
		b := in.Take(uint64(in.U32()))
		if in.Short || int(p.peer) >= a.in.f.w.Joined() {
			return errState
		}
		var err error
		if p.of, err = tscratio.DecodePair(b); err != nil {
			return err
		}
		k.pairs = append(k.pairs, p)
	}
	if k.turn > 0 || len(k.pairs) > 0 {
		a.in.kept[a.n] = k
	}
	rest, err := a.graph.RestoreState(in.Bytes, a.in.f.newCodec())
	if err == nil && (in.Short || len(rest) > 0) {
		err = errState
	}
	a.draws.Restore(drawn) // a new node has drawn nothing yet
	a.next = sim.Time(a.graph.Next())
	return err
}
