package explore

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
)

// sorter sorts more rows than fit in memory. While the caller adds rows, a goroutine sorts each
// full buffer and writes it to a scratch file, which has no name. In the end, the sorted parts are
// merged. Only one goroutine may call the methods.
type sorter[T any] struct {
	compare func(a, b *T) int
	key     func(*T) [2]uint64 // rows with smaller keys come first
	// write encodes a row as its difference from the row before it in the same part. read decodes a
	// row: it gets the previous row, and overwrites that row with the decoded one.
	write func(to []byte, row, before *T) []byte
	read  func(r *reader, row *T)

	rows    []T
	size    int // size of the rows in bytes, as given to add
	most    int // the size at which a buffer is full
	spare   chan []T
	pending chan []T
	done    chan error
	file    *os.File
	parts   []part
	at      int64
}

// part is one sorted part of the scratch file.
type part struct {
	offset, length int64
	rows           int
}

// mergeBuffer is how many bytes of a part are in memory at once. No row is longer than half of it.
const mergeBuffer = 128 << 10

func newSorter[T any](dir string, most int, compare func(a, b *T) int, key func(*T) [2]uint64,
	write func([]byte, *T, *T) []byte, read func(*reader, *T)) (*sorter[T], error) {
	file, err := os.CreateTemp(dir, "cprof-explore-*")
	if err != nil {
		return nil, fmt.Errorf("create scratch file: %w", err)
	}
	if err := os.Remove(file.Name()); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	s := &sorter[T]{compare: compare, key: key, write: write, read: read, most: most,
		file: file, spare: make(chan []T, 2), pending: make(chan []T), done: make(chan error, 1)}
	s.spare <- nil
	go func() {
		var failed error
		for rows := range s.pending {
			if failed == nil {
				failed = s.spill(rows)
			}
			s.spare <- rows[:0]
		}
		s.done <- failed
	}()
	return s, nil
}

// add adds a row. The parameter size is the memory that the row needs, in bytes.
func (s *sorter[T]) add(row T, size int) {
	s.rows = append(s.rows, row)
	if s.size += size; s.size >= s.most {
		s.flush()
	}
}

func (s *sorter[T]) flush() {
	s.pending <- s.rows
	s.rows, s.size = <-s.spare, 0
}

func (s *sorter[T]) spill(rows []T) error {
	// Rows are large, so sorting moves only keys and indices. It compares whole rows only if their
	// keys are equal.
	type keyed struct {
		key [2]uint64
		row int32
	}
	order := make([]keyed, len(rows))
	for i := range order {
		order[i] = keyed{s.key(&rows[i]), int32(i)}
	}
	slices.SortFunc(order, func(a, b keyed) int {
		switch {
		case a.key[0] != b.key[0]:
			return cmp.Compare(a.key[0], b.key[0])
		case a.key[1] != b.key[1]:
			return cmp.Compare(a.key[1], b.key[1])
		}
		return s.compare(&rows[a.row], &rows[b.row])
	})
	var buffer []byte
	var zero T
	before, begin := &zero, s.at
	for n, k := range order {
		row := &rows[k.row]
		buffer = s.write(buffer, row, before)
		before = row
		if len(buffer) >= 1<<20 || n+1 == len(order) {
			if _, err := s.file.Write(buffer); err != nil {
				return fmt.Errorf("write scratch file: %w", err)
			}
			s.at += int64(len(buffer))
			buffer = buffer[:0]
		}
	}
	if len(rows) > 0 {
		s.parts = append(s.parts, part{begin, s.at - begin, len(rows)})
	}
	return nil
}

// end waits until the last buffer is sorted and written. The caller calls it once, before merge.
func (s *sorter[T]) end() error {
	s.pending <- s.rows
	close(s.pending)
	err := <-s.done
	s.rows, s.spare = nil, nil
	return err
}

func (s *sorter[T]) close() error { return s.file.Close() }

// source reads one part during a merge.
type source[T any] struct {
	r      reader
	buffer [mergeBuffer]byte
	left   int
	file   io.ReaderAt
	part   part
	row    T
}

// next reads the next row into row. At the end of the part it returns false.
func (f *source[T]) next(s *sorter[T]) (bool, error) {
	if f.left == 0 {
		return false, nil
	}
	if len(f.r.data) < mergeBuffer/2 && f.part.length > 0 {
		n := copy(f.buffer[:], f.r.data)
		more := f.buffer[n:min(int64(len(f.buffer)), int64(n)+f.part.length)]
		if _, err := f.file.ReadAt(more, f.part.offset); err != nil {
			return false, fmt.Errorf("read scratch file: %w", err)
		}
		f.part.offset += int64(len(more))
		f.part.length -= int64(len(more))
		f.r.data = f.buffer[:n+len(more)]
	}
	s.read(&f.r, &f.row)
	f.left--
	if f.r.bad {
		return false, fmt.Errorf("read scratch file: it was changed: %w", errDamaged)
	}
	return true, nil
}

// merge calls the function tell with each row, in order. A row is valid only during the call. From
// time to time, merge calls the function done with the number of rows so far.
func (s *sorter[T]) merge(tell func(*T) error, done func(rows int) error) error {
	var heap []*source[T]
	less := func(i, j int) bool { return s.compare(&heap[i].row, &heap[j].row) < 0 }
	down := func(i int) {
		for {
			least := 2*i + 1
			if least >= len(heap) {
				return
			}
			if right := least + 1; right < len(heap) && less(right, least) {
				least = right
			}
			if !less(least, i) {
				return
			}
			heap[i], heap[least] = heap[least], heap[i]
			i = least
		}
	}
	for _, p := range s.parts {
		f := &source[T]{left: p.rows, file: s.file, part: p}
		if _, err := f.next(s); err != nil {
			return err
		}
		heap = append(heap, f)
	}
	for i := len(heap) / 2; i >= 0; i-- {
		if i < len(heap) {
			down(i)
		}
	}
	for n := 0; len(heap) > 0; n++ {
		if n%(1<<16) == 0 {
			if err := done(n); err != nil {
				return err
			}
		}
		if err := tell(&heap[0].row); err != nil {
			return err
		}
		more, err := heap[0].next(s)
		if err != nil {
			return err
		}
		if !more {
			heap[0] = heap[len(heap)-1]
			heap = heap[:len(heap)-1]
		}
		down(0)
	}
	return nil
}
