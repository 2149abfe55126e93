package ring

import (
	"io"
	"sync/atomic"
	"unsafe"
)

// A Reader reads records through the file and not through a mapping. A load from an unwritten page
// of shared memory through a mapping creates the page and charges it to the reader. So a sparse
// ring of gigabytes would end a drainer that has a memory limit. Reading a hole of a file takes no
// memory.
//
// The kernel copies from the page cache. The program writes to the same memory through its mapping.
// So only the order of loads matters.
//
// Before a read, the reader loads the tail from the mapping with an atomic load. The kernel's loads
// follow on the same thread, and that is enough: on x86 no load happens before an earlier load of
// its thread, and on arm64 no load happens before an earlier acquiring load (LDAR). Neither a
// system call nor a move to another core weakens this order. So the read sees all records that were
// stored before the tail.
//
// Inside one read the loads have no order, and the kernel may load even one word in parts. If a
// program may be writing a record, the reader accepts the record only after a later load proves
// that the record was complete: see copyOut and Copy.
//
// After a read, orderLoads keeps later loads from happening before the read.

// copyOut copies records and returns their number. If there are many writers, some records below
// the tail may be reserved but not written, and the lap mark in a record's counter word shows that
// the record is finished. copyOut stops at the first unfinished record. The read may have loaded an
// id before the writer stored the counter word beside it, so copyOut reads the finished records a
// second time.
func (r *Reader) copyOut(i int, first uint64, into []Record) (n int, err error) {
	if err := r.readRecords(i, first, into); err != nil {
		return 0, err
	}
	n = len(into)
	if r.header.ManyWriters {
		n = r.countFinished(first, into)
		if err := r.readRecords(i, first, into[:n]); err != nil {
			return 0, err
		}
	}
	for k := range into[:n] {
		into[k].Counter &= counterMask
	}
	return n, nil
}

// countFinished returns the number of finished records before the first unfinished one. A record is
// finished if it has the mark of its lap, because the writer stores the counter word last.
func (r *Reader) countFinished(first uint64, records []Record) int {
	for k := range records {
		if records[k].Counter&lapBit != lapMark(first+uint64(k), r.header.Records) {
			return k
		}
	}
	return len(records)
}

// readRecords reads records without checking them. It returns ErrShrunk if the file was cut.
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
	r.orderLoads()
	return nil
}

// orderLoads makes all earlier loads, including the kernel's loads, happen before all later loads.
// On x86 the store is an exchange, which is a full barrier. On arm64 the store is a releasing store
// (STLR), which happens after all earlier loads. The load that follows is an acquiring load (LDAR),
// which happens after the STLR and before all later loads.
func (r *Reader) orderLoads() {
	atomic.StoreUint64(&r.fence, 0)
	atomic.LoadUint64(&r.fence)
}

// Unwritten reads unwrittenFirst records at first. Each further read is larger, up to unwrittenMost
// records.
const unwrittenFirst, unwrittenMost = 1 << 6, 1 << 12

// Unwritten counts records that were reserved but never written (holes). It begins at the given
// sequence number (from). It stops at the first finished record, or when its count reaches the
// limit (most). The ring's owner must be dead. In a ring of pairs step is 2, and Unwritten examines
// only the first record of each pair. In other rings step is 1.
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
