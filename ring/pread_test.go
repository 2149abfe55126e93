package ring

import (
	"errors"
	"os"
	"testing"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// readAt is a function that replaces the file from which a Reader reads, so that a test can act
// during a read.
type readAt func(b []byte, offset int64) (int, error)

func (f readAt) ReadAt(b []byte, offset int64) (int, error) { return f(b, offset) }

// recordsIn returns the records in b, which must contain whole records.
func recordsIn(b []byte) []Record {
	return unsafe.Slice((*Record)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/RecordBytes)
}

// If there are many writers, a read may return a finished record's counter word together with the
// id that was there before. A read may also return half of an old counter word. So a reader reads
// each finished record a second time: this read returns the id and the whole counter word that the
// writer stored.
func TestWhatWasBesideACounterWordIsReadAgain(t *testing.T) {
	p := newShards(t, 1, 64)
	s, c := &p.Shards[0], drain(t, p.Path)
	for seq := range uint64(40) {
		if seq != 30 { // the record at 30 is reserved but not written
			*(*Record)(unsafe.Add(s.Records, seq*RecordBytes)) = Record{
				s.Finished(counterOf(seq), seq), seq,
			}
		}
	}
	*s.Tail = 40
	reads := 0
	c.records = readAt(func(b []byte, offset int64) (int, error) {
		n, err := c.file.ReadAt(b, offset)
		if reads++; reads == 1 {
			for k := range recordsIn(b) {
				r := &recordsIn(b)[k]
				r.ID, r.Counter = 0, r.Counter&^0xFFFF_FFFF
			}
		}
		return n, err
	})
	into := make([]Record, 64)
	first, n, unfinished, err := c.Copy(0, 0, into)
	if first != 0 || n != 30 || !unfinished || err != nil {
		t.Fatalf("from %d: %d records, unfinished %v, %v, want 30 of them", first, n, unfinished,
			err)
	}
	for seq, r := range into[:n] {
		if want := (Record{counterOf(uint64(seq)), uint64(seq)}); r != want {
			t.Fatalf("sequence %d is %+v, want %+v", seq, r, want)
		}
	}
}

// Copy does not return records that the program overwrites during the read.
func TestOverwrittenWhileItIsRead(t *testing.T) {
	p := newRing(t, policy(channel.Overwrite))
	s, c := &p.Shards[0], look(t, p.Path)
	for id := range uint64(MinRecords) {
		putRecords(s, counterOf(id), id)
	}
	c.records = readAt(func(b []byte, offset int64) (int, error) {
		for id := range uint64(5) {
			putRecords(s, counterOf(MinRecords+id), MinRecords+id)
		}
		n, err := c.file.ReadAt(b, offset)
		recordsIn(b)[4].ID = 1 << 40 // the test damages the record that is being overwritten
		return n, err
	})
	into := make([]Record, MinRecords)
	first, n, _, err := c.Copy(0, 0, into)
	if err != nil || first != 6 || n != 10 {
		t.Fatalf("from %d: %d records, %v, want 10 from 6", first, n, err)
	}
	for k, r := range into[:n] {
		if id := first + uint64(k); r != (Record{counterOf(id), id}) {
			t.Errorf("sequence %d is %+v", id, r)
		}
	}
}

// If somebody cuts a file before a read or during one, Copy returns no records of that read.
func TestCutWhileItIsRead(t *testing.T) {
	for _, many := range []bool{false, true} {
		for cutAt := 1; cutAt <= 2; cutAt++ {
			p := newShards(t, 1, 64)
			for seq := range uint64(50) {
				s := &p.Shards[0]
				*(*Record)(unsafe.Add(s.Records, seq*RecordBytes)) = Record{
					s.Finished(seq, seq), seq,
				}
				*s.Tail = seq + 1
			}
			c, reads := drain(t, p.Path), 0
			c.header.ManyWriters = many // then Copy reads the records twice
			c.records = readAt(func(b []byte, offset int64) (int, error) {
				if reads++; reads == cutAt {
					must(t, os.Truncate(p.Path, int64(recordsOffset(1))+20*RecordBytes+3))
				}
				return c.file.ReadAt(b, offset)
			})
			_, n, _, err := c.Copy(0, 0, make([]Record, 64))
			if cut := many || cutAt == 1; errors.Is(err, ErrShrunk) != cut || cut && n != 0 {
				t.Errorf("many writers %v, cut at read %d: %d records, %v", many, cutAt, n, err)
			}
			if _, err := c.Unwritten(0, 0, 1, 64); !errors.Is(err, ErrShrunk) {
				t.Errorf("many writers %v: holes of a file that was cut: %v", many, err)
			}
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	const records = 1 << 16
	for name, many := range map[string]bool{"one": false, "many": true} {
		b.Run(name, func(b *testing.B) {
			var p *Producer
			if many {
				p = newShards(b, 1, records)
			} else {
				p = newRing(b, size(records))
			}
			s := &p.Shards[0]
			for seq := range uint64(records) {
				r := Record{seq, seq}
				if many {
					r.Counter = s.Finished(seq, seq)
				}
				*(*Record)(unsafe.Add(s.Records, seq*RecordBytes)) = r
			}
			*s.Tail = records
			c, into := drain(b, p.Path), make([]Record, records)
			b.SetBytes(records * RecordBytes)
			for b.Loop() {
				if _, n, _, err := c.Copy(0, 0, into); n != records || err != nil {
					b.Fatal(n, err)
				}
			}
		})
	}
}
