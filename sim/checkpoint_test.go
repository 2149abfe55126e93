package sim

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
)

// TestCheckpointBytes compares a checkpoint with what FORMAT.md says, field by field.
func TestCheckpointBytes(t *testing.T) {
	p := &chatterProtocol{}
	w := started(t, p, fixedDelay{100, 100})
	w.AddControl("c", nil, Schedule{From: 77, Step: 1, Until: 78})
	w.Kill(2)
	w.Post(5, 3, 0, 9, 0x1122334455667788)
	id := [32]byte{0xaa, 31: 0xbb}
	var got bytes.Buffer
	if err := w.WriteCheckpoint(&got, id); err != nil {
		t.Fatal(err)
	}

	le := binary.LittleEndian
	want := le.AppendUint16([]byte("CPSIMCHK"), 1)
	record := func(kind byte, content []byte) {
		b := append(le.AppendUint64([]byte{kind}, uint64(len(content))), content...)
		sum := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		want = append(want, le.AppendUint32(b, sum)...)
	}
	world := append([]byte(nil), id[:]...)
	const seed, now, round, joined, posted, stopped, controls, drawn, next = 1, 0, 0, 10, 1, 0, 1,
		0, 77
	for _, v := range []uint64{seed, now, round, joined, posted, stopped, controls, drawn, next,
		joined - 1} {
		world = le.AppendUint64(world, v)
	}
	for _, n := range []uint32{0, 1, 9, 3, 4, 5, 6, 7, 8} { // 9 took the place of 2
		world = le.AppendUint32(world, n)
	}
	record(1, world)
	shard := make([]byte, 4+ShardNodes*(8+4))
	const happened, events = 0, 1
	shard = le.AppendUint64(shard, happened)
	shard = le.AppendUint64(shard, events)
	shard = le.AppendUint64(shard, 5)                  // at
	shard = le.AppendUint64(shard, 0x1122334455667788) // word
	shard = le.AppendUint32(shard, 3)                  // to
	shard = le.AppendUint32(shard, 1<<32-1)            // from
	shard = le.AppendUint32(shard, 1)                  // number
	shard = le.AppendUint16(shard, 0)                  // round
	shard = append(shard, 0, 9)                        // protocol, kind
	record(2, shard)
	record(3, le.AppendUint32(nil, 1))
	if !bytes.Equal(got.Bytes(), want) {
		at := 0
		for at < min(got.Len(), len(want)) && got.Bytes()[at] == want[at] {
			at++
		}
		t.Errorf("byte %d of %d differs from the format, which has %d", at, got.Len(), len(want))
	}
}
