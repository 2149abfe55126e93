package ring

import (
	"io"
	"sync/atomic"
	"unsafe"
)

// Records are read through the file and not through a mapping. A page of shared memory that nobody
// has written is made when somebody looks at it through a mapping, and is charged to that one: a
// sparse ring of gigabytes would be the end of a drainer with a limit. Reading a hole of a file
// takes no memory.
//
// The kernel copies from the page cache, which is the very memory that the program writes to
// through its mapping. What is left is the order of loads.
//
// Before a read the reader loads the tail in the mapping, with an atomic load. The kernel's loads
// come after it on the same thread, and that is enough: on x86 no load passes an earlier one, on
// arm64 none passes an acquiring load (LDAR). Neither a system call nor a move to another core
// weakens that. So records below the tail are there, if they were stored before the tail was.
//
// Within a read there is no order, and a word may even be copied in parts. A record that somebody
// may be writing is none until something that was loaded later says so: see copyOut and Copy.
//
// After a read comes settle, so that what is loaded next was not loaded before.

// copyOut copies records and returns how many: with many writers, up to the first that is not
// finished. There the tail covers records that are only reserved, and a record's own counter word
// says that the rest is written. What was read beside that word may be older than the word: so what
// is finished is read once more.
func (r *Reader) copyOut(i int, first uint64, into []Record) (n int, err error) {
	if err := r.readRecords(i, first, into); err != nil {
		return 0, err
	}
	n = len(into)
	if r.header.ManyWriters {
		n = r.finished(first, into)
		if err := r.readRecords(i, first, into[:n]); err != nil {
			return 0, err
		}
	}
	for k := range into[:n] {
		into[k].Counter &= counterMask
	}
	return n, nil
}

// finished counts the records in front that carry the mark of their lap. The counter word is
// stored last.
func (r *Reader) finished(first uint64, records []Record) int {
	for k := range records {
		if records[k].Counter&lapBit != lapMark(first+uint64(k), r.header.Records) {
			return k
		}
	}
	return len(records)
}

// readRecords reads records as they are. A file that has been cut has fewer of them.
func (r *Reader) readRecords(i int, first uint64, into []Record) error {
	size := r.header.Records
	shard := int64(recordsOffset(r.header.Shards)) + int64(i)*int64(size)*RecordBytes
	for len(into) > 0 {
		at := first & (size - 1)
		n := min(uint64(len(into)), size-at)
		bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(into))), n*RecordBytes)
		if _, err := r.records.ReadAt(bytes, shard+int64(at)*RecordBytes); err == io.EOF {
			return ErrShrunk
		} else if err != nil {
			return err
		}
		first, into = first+n, into[n:]
	}
	r.settle()
	return nil
}

// settle has all that was loaded before it, by the kernel as well, be older than what is loaded
// after it. On x86 the store is an exchange, which nothing passes. On arm64 it is one that
// releases (STLR), which no earlier load passes; the load behind it acquires (LDAR), which does
// not pass such a store, and which nothing later passes.
func (r *Reader) settle() {
	atomic.StoreUint64(&r.fence, 0)
	atomic.LoadUint64(&r.fence)
}

// Unwritten looks at so many records at first, and at more each time, up to the second number.
const unwrittenFirst, unwrittenMost = 1 << 6, 1 << 12

// Unwritten counts records from a sequence on, of at most so many, that were reserved and not
// written, for a ring whose owner is dead. Pairs are told by their first record: step is 2 for
// them, else 1.
func (r *Reader) Unwritten(i int, from, step, most uint64) (n uint64, err error) {
	s, err := r.State(i)
	if err != nil || from >= s.Tail {
		return 0, err
	}
	most = min(most, s.Tail-from)
	buffer := make([]Record, unwrittenFirst)
	for n+step <= most {
		part := buffer[:min(uint64(len(buffer)), most-n)/step*step]
		if err := r.readRecords(i, from+n, part); err != nil {
			return 0, r.failed(err)
		}
		for k := uint64(0); k < uint64(len(part)); k += step {
			seq := from + n + k
			if part[k].Counter&lapBit == lapMark(seq, r.header.Records) {
				return n + k, nil
			}
		}
		n += uint64(len(part))
		if len(buffer) < unwrittenMost {
			buffer = make([]Record, 8*len(buffer))
		}
	}
	return n, nil
}
