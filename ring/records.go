package ring

import (
	"io"
	"sync/atomic"
	"unsafe"
)

// Records are read through the file and not through a mapping. Looking at an unwritten page of
// shared memory through a mapping creates the page, and charges it to the reader. A sparse ring of
// gigabytes would end a drainer with a limit. Reading a hole of a file takes no memory.
//
// The kernel copies from the page cache, which is the memory that the program writes to through its
// mapping. So only the order of loads matters.
//
// Before a read the reader loads the tail in the mapping, with an atomic load. The kernel's loads
// come after it on the same thread, and that suffices: on x86 no load passes an earlier one, and on
// arm64 none passes an acquiring load (LDAR). Neither a system call nor a move to another core
// weakens that. So records below the tail are there, if they were stored before the tail.
//
// Within a read there is no order, and even a word may be copied in parts. A record that somebody
// may be writing does not count until a later load proves it: see copyOut and Copy.
//
// After a read comes settle, so that later loads cannot happen before it.

// copyOut copies records and returns how many. With many writers it stops at the first record that
// is not finished. There the tail also covers records that are only reserved, and a record's own
// counter word says that the rest is written. What was read beside that word may be older than the
// word, so finished records are read once more.
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

// finished counts the records at the front that have the mark of their lap. The counter word is
// stored last.
func (r *Reader) finished(first uint64, records []Record) int {
	for k := range records {
		if records[k].Counter&lapBit != lapMark(first+uint64(k), r.header.Records) {
			return k
		}
	}
	return len(records)
}

// readRecords reads records without checks. A file that was cut has fewer of them.
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

// settle orders all earlier loads, even the kernel's, before all later ones. On x86 the store is an
// exchange, which nothing passes. On arm64 it is a releasing store (STLR), which no earlier load
// passes. The load after it acquires (LDAR): it does not pass such a store, and no later load
// passes it.
func (r *Reader) settle() {
	atomic.StoreUint64(&r.fence, 0)
	atomic.LoadUint64(&r.fence)
}

// Unwritten looks at unwrittenFirst records at first, then at more each time, up to unwrittenMost.
const unwrittenFirst, unwrittenMost = 1 << 6, 1 << 12

// Unwritten counts records from a sequence on, at most most of them, that were reserved but not
// written. It is for a ring whose owner is dead. The first record of a pair decides: step is 2 for
// pairs, else 1.
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
