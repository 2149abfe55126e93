package server

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/sim"
)

// stateVersion is the version of the state of this package in a checkpoint, which sim/FORMAT.md
// describes.
const stateVersion = 1

// errState is returned for a state that cannot be read.
var errState = errors.New("not the state of a server and its clients")

// These are the kinds of entries in the log of a serverAtWork.
const (
	entryTick   = 1
	entryLetter = 2
	entryRun    = 3
	entryMatrix = 4
)

// addToLog adds an entry to the log. If a server gets the same messages at the same times, it makes
// the same decisions. So a checkpoint stores the log as the server's state.
func (o *serverAtWork) addToLog(kind byte, from sim.Node, l *linkLetter) {
	o.log = append(o.log, kind)
	o.log = binary.LittleEndian.AppendUint64(o.log, uint64(o.now))
	if l == nil {
		return
	}
	o.log = binary.LittleEndian.AppendUint32(o.log, uint32(from))
	log, err := l.encodeLetter(o.log)
	if err != nil {
		o.failed = err
		return
	}
	o.log = log
}

// repeatLog gives a new server all messages and times in the log of another server.
func (o *serverAtWork) repeatLog(log []byte) error {
	o.cx, o.log = nil, slices.Clone(log)
	for len(log) > 0 {
		if len(log) < 9 {
			return errState
		}
		kind := log[0]
		o.now, log = sim.Time(binary.LittleEndian.Uint64(log[1:])), log[9:]
		switch kind {
		case entryTick:
			o.of.Tick()
		case entryRun:
			o.startRun()
		case entryMatrix:
			o.of.Matrix()
		case entryLetter:
			if len(log) < 4 {
				return errState
			}
			from := sim.Node(binary.LittleEndian.Uint32(log))
			l, rest, err := readLetter(log[4:])
			if err != nil {
				return err
			}
			o.handleLetter(from, l)
			log = rest
		default:
			return errState
		}
	}
	return o.failed
}

// Parts are the server.
func (s *serverProtocol) Parts() []sim.Part { return []sim.Part{s} }

func (s *serverProtocol) Allocate(shard int) {
	if shard == int(homeNode)/sim.ShardNodes {
		s.Free(shard)
		s.office = s.open()
	}
}

func (s *serverProtocol) Free(shard int) {
	if shard == int(homeNode)/sim.ShardNodes {
		_ = s.Close() // its files are temporary
	}
}

// Encode appends the state of the server, if the server's node is in the shard.
func (s *serverProtocol) Encode(shard int, to []byte) []byte {
	le := binary.LittleEndian
	if shard != int(homeNode)/sim.ShardNodes {
		return to
	}
	o := s.office
	to = append(to, stateVersion)
	to = le.AppendUint32(to, uint32(len(o.last)))
	for _, n := range slices.Sorted(maps.Keys(o.last)) {
		to = le.AppendUint64(le.AppendUint32(to, uint32(n)), uint64(o.last[n]))
	}
	return append(le.AppendUint64(to, uint64(len(o.log))), o.log...)
}

// Decode restores the server. This takes as long as the server's work up to the checkpoint.
func (s *serverProtocol) Decode(shard int, from []byte) ([]byte, error) {
	if shard != int(homeNode)/sim.ShardNodes {
		return from, nil
	}
	o, in := s.office, &sim.State{Bytes: from}
	if o.failed != nil {
		return nil, fmt.Errorf("start the server: %w", o.failed)
	}
	if v := in.Take(1)[0]; v != stateVersion {
		return nil, fmt.Errorf("%w: version %d, want %d", errState, v, stateVersion)
	}
	for range in.U32() {
		if in.Short {
			return nil, errState
		}
		n := sim.Node(in.U32())
		o.last[n] = sim.Time(in.U64())
	}
	log := in.Take(in.U64())
	if in.Short {
		return nil, errState
	}
	return in.Bytes, o.repeatLog(log)
}

// Parts are the clients.
func (k *clientProtocol) Parts() []sim.Part { return []sim.Part{k} }

func (k *clientProtocol) Allocate(shard int) {
	for len(k.shards) <= shard {
		k.shards = append(k.shards, nil)
	}
	k.shards[shard] = make([]nodeClient, sim.ShardNodes)
}

func (k *clientProtocol) Free(shard int) { k.shards[shard] = nil }

// Encode appends the state of a shard's clients.
func (k *clientProtocol) Encode(shard int, to []byte) []byte {
	to = append(to, stateVersion)
	for i := range k.shards[shard] {
		at := len(to)
		to = append(to, 0, 0, 0, 0)
		if a := &k.shards[shard][i]; a.connection > 0 {
			to = a.encode(to)
		}
		binary.LittleEndian.PutUint32(to[at:], uint32(len(to)-at-4))
	}
	return to
}

func (a *nodeClient) encode(to []byte) []byte {
	le := binary.LittleEndian
	flags := byte(0)
	for i, is := range []bool{a.registered, a.member, a.told, a.probing != nil} {
		if is {
			flags |= 1 << i
		}
	}
	to = append(to, flags)
	for _, v := range []uint32{a.connection, a.turn, uint32(len(a.said)), uint32(len(a.unacked))} {
		to = le.AppendUint32(to, v)
	}
	for _, v := range []uint64{uint64(a.heard), uint64(a.tried), uint64(a.due), uint64(a.last),
		a.reports, a.dropped, uint64(a.heartbeat), uint64(a.dead)} {
		to = le.AppendUint64(to, v)
	}
	for _, n := range a.said {
		to = le.AppendUint32(to, uint32(n))
	}
	letters := make([]*linkLetter, 0, len(a.unacked)+1)
	for _, t := range a.unacked {
		letters = append(letters, &linkLetter{m: t})
	}
	if a.probing != nil {
		letters = append(letters, &linkLetter{m: a.probing})
	}
	for _, l := range letters {
		var err error
		if to, err = l.encodeLetter(to); err != nil { // cannot fail: each letter was encoded before
			panic(err)
		}
	}
	return to
}

// Decode restores the clients of a shard.
func (k *clientProtocol) Decode(shard int, from []byte) ([]byte, error) {
	in := &sim.State{Bytes: from}
	if v := in.Take(1)[0]; v != stateVersion {
		return nil, fmt.Errorf("%w: version %d, want %d", errState, v, stateVersion)
	}
	for i := range k.shards[shard] {
		length := in.U32()
		if length == 0 || in.Short {
			continue
		}
		if err := k.shards[shard][i].decode(in.Take(uint64(length))); err != nil {
			return nil, fmt.Errorf("client %d: %w", shard*sim.ShardNodes+i, err)
		}
	}
	if in.Short {
		return nil, errState
	}
	return in.Bytes, nil
}

func (a *nodeClient) decode(from []byte) error {
	in := &sim.State{Bytes: from}
	flags := in.Take(1)[0]
	a.registered, a.member, a.told = flags&1 != 0, flags&2 != 0, flags&4 != 0
	a.connection, a.turn = in.U32(), in.U32()
	said, unacked := in.U32(), in.U32()
	for _, v := range []*sim.Time{&a.heard, &a.tried, &a.due, &a.last} {
		*v = sim.Time(in.U64())
	}
	a.reports, a.dropped = in.U64(), in.U64()
	a.heartbeat, a.dead = sim.Time(in.U64()), sim.Time(in.U64())
	for range said {
		if in.Short {
			return errState
		}
		a.said = append(a.said, sim.Node(in.U32()))
	}
	if in.Short || a.connection == 0 {
		return errState
	}
	rest := in.Bytes
	for range unacked {
		l, next, err := readLetter(rest)
		if err != nil {
			return err
		}
		t, ok := l.m.(*control.Trains)
		if !ok {
			return errState
		}
		a.unacked, rest = append(a.unacked, t), next
	}
	if flags&8 != 0 {
		l, next, err := readLetter(rest)
		if err != nil {
			return err
		}
		var ok bool
		if a.probing, ok = l.m.(*control.Probing); !ok {
			return errState
		}
		rest = next
	}
	if len(rest) > 0 {
		return errState
	}
	return nil
}
