package logstore

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Salvage reads a log in whatever state it is, also one whose header is damaged, and writes what is whole to a new, sealed log at path. For rows
// that are missing there it writes Drops with the reason Damaged. Of a log without a header the fields that only a header has are those of
// fallback. The report is the account of the old log; rows missing in it are accounted for in the new one. Errors wrap ErrVersion, ErrNotLog where
// nothing was found that could be of a log, or what the system says; then no file remains at path.
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
			return Report{}, fmt.Errorf("salvage log %q: no block of a log in it: %w: %w", name, headless, ErrNotLog)
		}
		format, incarnation := r.header.Format, r.header.Incarnation
		r.header = fallback
		r.header.Part, r.header.Previous = UnknownPart, Fingerprint{}
		r.header.Format, r.header.Incarnation = format, incarnation
		r.header.Continues = nil
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

// firstBlock finds the first whole block in a file without a header.
func (r *Reader) firstBlock() (*Block, error) {
	for {
		b, err := r.Next()
		var damage *CorruptionError
		if b != nil || err != nil && !errors.As(err, &damage) {
			return b, err
		}
	}
}

func salvage(r *Reader, w *Writer, b *Block) error {
	for {
		if b != nil {
			// Not Append: in a damaged file blocks may be out of order.
			if err := w.append(b); err != nil {
				return err
			}
		}
		var err error
		var damage *CorruptionError
		b, err = r.Next()
		if err == io.EOF {
			break
		}
		if err != nil && !errors.As(err, &damage) {
			return err
		}
	}
	drops := make(map[int][]Drop) // of shards
	for _, a := range r.tracker.report() {
		for _, m := range a.Missing {
			drops[a.Shard] = append(drops[a.Shard], Drop{Of: uint64(a.Kind), Reason: uint64(Damaged), At: m.From, Count: m.To - m.From})
		}
	}
	for shard, all := range drops {
		for len(all) > 0 {
			n := min(len(all), MaxRows)
			// The drops' own sequence goes on behind what is known to have been written.
			next := max(w.Next(Drops, shard), r.tracker.of(Drops, shard).end)
			if err := w.Append(&Block{Incarnation: w.header.Incarnation, Shard: shard, First: next, Drops: all[:n]}); err != nil {
				return err
			}
			all = all[n:]
		}
	}
	return nil
}
