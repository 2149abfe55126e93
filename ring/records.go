package ring

import (
	"io"
	"sync/atomic"
	"unsafe"
)

// Records are read through the file and not through a mapping. A page of a mapping that nobody has written
// is made when it is looked at, and charged to whoever looks: a sparse ring of gigabytes would be the end of
// a drainer with a limit. Reading a hole of a file takes no memory.

// copyOut copies records and returns how many: with many writers, up to the first that is not finished.
// Nothing orders the loads of one read, and a reading finds a record's id in any state until it has found its
// counter word finished. So what is finished is read once more.
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

// finished counts the records in front that carry the mark of their lap. The counter word is stored last.
func (r *Reader) finished(first uint64, records []Record) int {
	for k := range records {
		if records[k].Counter&lapBit != lapMark(first+uint64(k), r.header.Records) {
			return k
		}
	}
	return len(records)
}

// readRecords reads records as they are, of which there are at most as many as the shard has.
func (r *Reader) readRecords(i int, first uint64, into []Record) error {
	size := r.header.Records
	shard := int64(recordsOffset(r.header.Shards)) + int64(i)*int64(size)*RecordBytes
	for len(into) > 0 {
		at := first & (size - 1)
		n := min(uint64(len(into)), size-at)
		bytes := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(into))), n*RecordBytes)
		if _, err := r.file.ReadAt(bytes, shard+int64(at)*RecordBytes); err == io.EOF {
			return ErrShrunk
		} else if err != nil {
			return err
		}
		first, into = first+n, into[n:]
	}
	// What the program says after this read is newer than what was read.
	atomic.AddUint64(&r.fence, 0)
	return nil
}

// unwrittenRecords is how many records are looked at in one read.
const unwrittenRecords = 1 << 12

// Unwritten counts records from a sequence on, of at most so many, that were reserved and not
// written, for a ring whose owner is dead. Pairs are told by their first record: step is 2 for
// them, else 1.
func (r *Reader) Unwritten(i int, from, step, most uint64) (n uint64, err error) {
	s, err := r.State(i)
	if err != nil || from >= s.Tail {
		return 0, err
	}
	most = min(most, s.Tail-from)
	buffer := make([]Record, min(most, unwrittenRecords, r.header.Records))
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
	}
	return n, nil
}
