package logstore

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Salvage reads a log file in any state, even one with a damaged header. It writes all undamaged
// blocks to a new, sealed file at path. For rows that are missing between these blocks, it writes
// Drops with the reason Damaged. If the header cannot be read, fallback supplies the fields that
// only a header contains. The report describes the old file; the Drops in the new file describe
// what the new file lacks. Errors wrap ErrVersion, ErrFormat, an error of the system, or ErrNotLog
// if no part of a log was found. After an error there is no file at path.
func Salvage(from io.Reader, name, path string, fallback Header) (Report, error) {
	r := newReader(from, name)
	var first *Block
	if err := r.readHeader(); err != nil {
		if !errors.Is(err, ErrNotLog) && !errors.Is(err, ErrHeader) {
			return Report{}, err
		}
		headless := &CorruptionError{File: name, Err: fmt.Errorf("%w: %w", ErrHeader, err)}
		r.guess = true
		if first, err = r.firstBlock(); err != nil {
			return Report{}, fmt.Errorf("salvage log %q: no block of a log in it: %w: %w", name,
				headless, ErrNotLog)
		}
		incarnation := r.header.Incarnation
		r.header = fallback
		r.header.Part, r.header.Previous = UnknownPart, Fingerprint{}
		r.header.Incarnation, r.header.Continues = incarnation, nil
	}
	r.tracker.skipTo(r.header.Continues)
	h := r.header
	h.Rewritten = true
	w, err := Create(nil, path, h)
	if err != nil {
		return Report{}, err
	}
	err = salvage(r, w, first)
	if err == nil {
		err = w.SealAs(r.then)
	}
	if err != nil {
		w.Close()
		os.Remove(path)
		return r.Report(), fmt.Errorf("salvage log %q: %w", name, err)
	}
	return r.Report(), nil
}

// firstBlock returns the first undamaged block of a file without a readable header.
func (r *Reader) firstBlock() (*Block, error) {
	for {
		b, err := r.Next()
		var damage *CorruptionError
		if b != nil || err != nil && !errors.As(err, &damage) {
			return b, err
		}
	}
}

func salvage(r *Reader, w *Writer, first *Block) error {
	// A damaged file may have blocks out of order. The method Append would refuse such blocks, but
	// the method append accepts them.
	if first != nil {
		if err := w.append(first); err != nil {
			return err
		}
	}
	if err := EachBlock(r.Next, w.append); err != nil {
		return err
	}
	drops := make(map[int][]Drop) // indexed by shard
	for _, a := range r.tracker.report() {
		for _, m := range a.Missing {
			drops[a.Shard] = append(drops[a.Shard], Drop{
				Of: uint64(a.Kind), Reason: uint64(Damaged), At: m.From, Count: m.To - m.From,
			})
		}
	}
	for shard, all := range drops {
		for len(all) > 0 {
			n := min(len(all), MaxRows)
			// The sequence numbers of the new Drops begin after all Drops that are known to have
			// been written.
			next := max(w.Next(Drops, shard), r.tracker.of(Drops, shard).end)
			if err := w.Append(&Block{Incarnation: w.header.Incarnation, Shard: shard, First: next,
				Drops: all[:n]}); err != nil {
				return err
			}
			all = all[n:]
		}
	}
	return nil
}
