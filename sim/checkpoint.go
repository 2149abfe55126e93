package sim

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
)

// FORMAT.md describes a checkpoint. The numbers of the kinds of records never change: a new kind
// gets a new number.
const (
	checkpointMagic   = "CPSIMCHK"
	checkpointVersion = 1

	recordWorld = 1
	recordShard = 2
	recordEnd   = 3

	maxRecord = 1 << 30
)

// Errors of Restore wrap these.
var (
	// ErrNoCheckpoint is returned for a file that does not begin like a checkpoint.
	ErrNoCheckpoint = errors.New("this is not a checkpoint")
	// ErrVersion is returned for a checkpoint with a version that this program does not read.
	ErrVersion = errors.New("the checkpoint has another version")
	// ErrDamaged is returned for a checkpoint that was changed or cut off.
	ErrDamaged = errors.New("the checkpoint is damaged")
	// ErrOther is returned for a checkpoint of another simulation, or for parts that were written
	// at different times.
	ErrOther = errors.New("the checkpoint is of another simulation or of another time")
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encodeWorld returns the state that all processes of a simulation have in common.
func (w *World) encodeWorld(id [32]byte) []byte {
	to := append([]byte(nil), id[:]...)
	u64 := func(v uint64) { to = binary.LittleEndian.AppendUint64(to, v) }
	u64(w.Seed)
	u64(uint64(w.now.at))
	u64(uint64(w.now.round))
	u64(uint64(w.joined))
	u64(uint64(w.posted))
	stopped := uint64(0)
	if w.stopped {
		stopped = 1
	}
	u64(stopped)
	u64(uint64(len(w.controls)))
	for _, c := range w.controls {
		u64(c.stream.drawn)
		u64(uint64(c.next))
	}
	u64(uint64(len(w.living)))
	for _, n := range w.living {
		to = binary.LittleEndian.AppendUint32(to, uint32(n))
	}
	return to
}

// mostRestored is the largest number of nodes in a checkpoint. It keeps a damaged number from using
// up the memory. Memory for a shard is allocated only when the shard's record is read.
const mostRestored = 1 << 28

// decodeWorld reads the bytes of encodeWorld into a world without nodes.
func (w *World) decodeWorld(from []byte, id [32]byte) error {
	if len(from) < 32+8*7 {
		return ErrDamaged
	}
	if !bytes.Equal(from[:32], id[:]) {
		return ErrOther
	}
	from = from[32:]
	u64 := func() uint64 {
		v := binary.LittleEndian.Uint64(from)
		from = from[8:]
		return v
	}
	seed, at, round, joined, posted, stopped, controls := u64(), u64(), u64(), u64(), u64(), u64(),
		u64()
	if seed != w.Seed || controls != uint64(len(w.controls)) {
		return ErrOther
	}
	if round > 1<<16-1 || joined > mostRestored || posted > 1<<32-1 ||
		uint64(len(from)) < 16*controls+8 {
		return ErrDamaged
	}
	w.now = timeAndRound{Time(at), uint16(round)}
	w.done = w.now.at
	if w.lookahead < Never-w.now.at {
		w.happened.at = w.now.at + w.lookahead // events may have happened up to here
	}
	w.posted, w.stopped = uint32(posted), stopped == 1
	for _, c := range w.controls {
		c.stream.Restore(u64())
		c.next = Time(u64())
	}
	living := u64()
	if living > joined || uint64(len(from)) != 4*living {
		return ErrDamaged
	}
	w.joined = int(joined)
	w.up = make([]uint64, joined/64+1)
	if living == 0 { // nobody has died
		for n := range w.joined {
			w.up[n/64] |= 1 << (n % 64)
		}
		return nil
	}
	w.deaths = living < joined
	w.living = make([]Node, living)
	for i := range w.living {
		n := Node(binary.LittleEndian.Uint32(from[4*i:]))
		if uint64(n) >= joined {
			return ErrDamaged
		}
		w.living[i] = n
		w.up[n/64] |= 1 << (n % 64)
	}
	return nil
}

// WriteCheckpoint writes the shards of this process, and the state that all processes have in
// common. The parameter id is a checksum of the simulation's configuration, which identifies the
// simulation. If there are other processes, each of them must call WriteCheckpoint between the same
// two windows.
func (w *World) WriteCheckpoint(to io.Writer, id [32]byte) error {
	if _, err := w.queueInFlight(); err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, 1<<20)
	head := binary.LittleEndian.AppendUint16([]byte(checkpointMagic), checkpointVersion)
	_, err := out.Write(head)
	record := func(kind byte, content []byte) {
		if err != nil {
			return
		}
		b := binary.LittleEndian.AppendUint64([]byte{kind}, uint64(len(content)))
		if _, err = out.Write(b); err == nil {
			if _, err = out.Write(content); err == nil {
				sum := crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, content)
				_, err = out.Write(binary.LittleEndian.AppendUint32(nil, sum))
			}
		}
	}
	record(recordWorld, w.encodeWorld(id))
	count := uint32(0)
	for i, s := range w.shards {
		if s == nil || err != nil {
			continue
		}
		b, fault := w.EncodeShard(i)
		if fault != nil {
			return fault
		}
		record(recordShard, append(binary.LittleEndian.AppendUint32(nil, uint32(i)), b...))
		count++
	}
	record(recordEnd, binary.LittleEndian.AppendUint32(nil, count))
	if err == nil {
		err = out.Flush()
	}
	return err
}

// Restore reads checkpoints into a world without nodes. Together, the checkpoints must have all
// shards. The number of processes may differ from the number that wrote them.
func (w *World) Restore(id [32]byte, parts ...io.Reader) error {
	if w.joined > 0 {
		return errors.New("restore: the world has nodes")
	}
	var world []byte
	found := map[int]bool{}
	var here []bool // by shard: this process has it
	for _, part := range parts {
		in := bufio.NewReaderSize(part, 1<<20)
		var head [len(checkpointMagic) + 2]byte
		if _, err := io.ReadFull(in, head[:]); err != nil ||
			string(head[:len(checkpointMagic)]) != checkpointMagic {
			return fmt.Errorf("restore: %w", ErrNoCheckpoint)
		}
		if v := binary.LittleEndian.Uint16(head[len(checkpointMagic):]); v != checkpointVersion {
			return fmt.Errorf("restore: %w: %d, this program reads %d", ErrVersion, v,
				checkpointVersion)
		}
		shards := uint32(0)
		for ended := false; !ended; {
			kind, content, err := readRecord(in)
			if err != nil {
				return fmt.Errorf("restore: %w", err)
			}
			switch {
			case kind == recordWorld && world == nil:
				world = content
				if err := w.decodeWorld(content, id); err != nil {
					return fmt.Errorf("restore: %w", err)
				}
				for len(w.owners)*ShardNodes < w.joined {
					here = append(here, w.registerShard())
				}
			case kind == recordWorld:
				if !bytes.Equal(world, content) {
					return fmt.Errorf("restore: %w", ErrOther)
				}
			case kind == recordShard && world != nil && len(content) >= 4:
				i := int(binary.LittleEndian.Uint32(content))
				if i >= len(w.shards) || found[i] {
					return fmt.Errorf("restore: %w: shard %d", ErrDamaged, i)
				}
				found[i] = true
				shards++
				if !here[i] {
					continue
				}
				if err := w.DecodeShard(i, content[4:]); err != nil {
					return fmt.Errorf("restore: %w: %w", ErrDamaged, err)
				}
			case kind == recordEnd && len(content) == 4:
				if binary.LittleEndian.Uint32(content) != shards {
					return fmt.Errorf("restore: %w: a shard is missing", ErrDamaged)
				}
				ended = true
			default:
				return fmt.Errorf("restore: %w: a record of kind %d", ErrDamaged, kind)
			}
		}
	}
	if world == nil || len(found) != len(w.shards) {
		return fmt.Errorf("restore: %w: %d of %d shards are there", ErrDamaged, len(found),
			len(w.shards))
	}
	return nil
}

// readRecord reads one record and checks its sum. It allocates no more than the file is long.
func readRecord(in io.Reader) (kind byte, content []byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, ErrDamaged
	}
	n := binary.LittleEndian.Uint64(head[1:])
	if n > maxRecord {
		return 0, nil, ErrDamaged
	}
	var b bytes.Buffer
	if got, err := io.CopyN(&b, in, int64(n)+4); err != nil || got != int64(n)+4 {
		return 0, nil, ErrDamaged
	}
	content = b.Bytes()[:n]
	sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, content)
	if binary.LittleEndian.Uint32(b.Bytes()[n:]) != sum {
		return 0, nil, ErrDamaged
	}
	return head[0], content, nil
}

// SaveCheckpoint writes a checkpoint to a file and replaces an older one. If that fails, the older
// one stays.
func (w *World) SaveCheckpoint(path string, id [32]byte) (err error) {
	kept := ""
	if older, err := os.Stat(path); err == nil {
		if !older.Mode().IsRegular() {
			return fmt.Errorf("save checkpoint %q: not a regular file: give another path", path)
		}
		kept = ": the older checkpoint there was kept"
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*")
	if err != nil {
		return fmt.Errorf("save checkpoint: %w", err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
			_ = os.Remove(file.Name())
			err = fmt.Errorf("save checkpoint %q: %w%s", path, err, kept)
		}
	}()
	if err = w.WriteCheckpoint(file, id); err != nil {
		return err
	}
	if err = file.Sync(); err != nil {
		return err
	}
	if err = file.Close(); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}
