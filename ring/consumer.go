package ring

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// Consumer is the end of a ring that drains the ring and changes its settings. A lock allows one
// drainer for each directory: see LockDirectory. One goroutine at a time may use a Consumer.
type Consumer struct {
	Reader
	generation uint64
}

// OpenConsumer maps a ring for draining. The name of the file must match the identity in the ring.
// A file with another name is a copy, and the copy's records must not go to the log of the ring.
func OpenConsumer(path string) (*Consumer, error) {
	r, err := open(path, true)
	if err != nil {
		return nil, err
	}
	if name := fileName(r.header.Name, r.header.Incarnation); filepath.Base(path) != name {
		r.Close()
		return nil, fmt.Errorf("open ring %q: its identity is that of %q: %w",
			path, name, ErrUntrusted)
	}
	c := &Consumer{Reader: *r}
	c.heads = slices.Repeat([]uint64{unknownHead}, len(c.shards))
	_, w, err := c.Settings()
	if err != nil {
		c.Close()
		return nil, err
	}
	c.generation = w.Generation()
	return c, nil
}

// Release tells the program what is safe in the log: of shard i, the records below head, and the
// given numbers of drop ranges and of journal entries. Both numbers are counted from the opening of
// the ring, not from the last call. Release refuses a number that is smaller than in an earlier
// call, or larger than what the program has written.
func (c *Consumer) Release(i int, head, drops, journal uint64) error {
	s, err := c.State(i)
	if err != nil {
		return err
	}
	var refused error
	err = guard(func() {
		page := c.shards[i]
		line := &page.consumer
		dropsTaken, dropsBegun := load(&line.drops), load(&page.producer.drops)
		journalTaken, journalWritten := load(&line.journal), load(&page.producer.journal)
		switch {
		case head < s.Head || head > s.Tail:
			refused = fmt.Errorf(
				"release ring %q to sequence %d: it is not between head %d and tail %d: %w", c.path,
				head, s.Head, s.Tail, ErrDamaged)
		case drops < dropsTaken || drops > dropsBegun:
			refused = fmt.Errorf(
				"release ring %q: %d ranges of drops are not between %d and %d: %w", c.path, drops,
				dropsTaken, dropsBegun, ErrDamaged)
		case journal < journalTaken || journal > journalWritten:
			refused = fmt.Errorf(
				"release ring %q: %d journal entries are not between %d and %d: %w", c.path,
				journal, journalTaken, journalWritten, ErrDamaged)
		default:
			atomic.StoreUint64(&line.drops, drops)
			atomic.StoreUint64(&line.journal, journal)
			atomic.StoreUint64(&line.head, head)
			c.heads[i] = head
		}
	})
	if err != nil {
		return c.failed(err)
	}
	return refused
}

// Apply changes the channel's settings. The program's next log call adopts them and writes them
// into the journal.
func (c *Consumer) Apply(settings channel.Settings) (Word, error) {
	if err := settings.Validate(); err != nil {
		return 0, fmt.Errorf("change settings of %s: %w", c.header.Name, err)
	}
	_, current, err := c.Settings()
	if err != nil {
		return 0, err
	}
	// Stay above every generation seen so far. Then no generation is used twice, even if somebody
	// overwrites the word.
	c.generation = max(c.generation, current.Generation())
	if c.generation > maxGeneration-2 {
		return 0, c.damaged("switching word %d: no generation is left", uint64(current))
	}
	w := c.next(settings.Kind)
	if w.slot() == current.slot() {
		w = c.next(settings.Kind)
	}
	err = guard(func() {
		s := &c.page.control.slot[w.slot()]
		atomic.StoreUint64(&s.kind, uint64(settings.Kind))
		atomic.StoreUint64(&s.a, settings.A)
		atomic.StoreUint64(&s.b, settings.B)
		atomic.StoreUint64(c.wordAddress(), uint64(w))
	})
	if err != nil {
		return 0, c.failed(err)
	}
	return w, nil
}

// next returns the word of the next generation. Successive generations use the slots in turn, but
// never slot 0, which is the program's.
func (c *Consumer) next(kind channel.Kind) Word {
	c.generation++
	return NewWord(c.generation, kind, chosenSlot+1+int(c.generation%(slots-1)))
}

// Asked returns how many snapshots the program has asked for, and whether some of them are
// unanswered.
func (c *Consumer) Asked() (n uint64, open bool, err error) {
	err = guard(func() {
		n = load(&c.shards[0].producer.asked)
		open = n != load(&c.shards[0].consumer.asked)
	})
	if err != nil {
		return 0, false, c.failed(err)
	}
	return n, open, nil
}

// Answered notes that the first n snapshots that the program asked for were taken.
func (c *Consumer) Answered(n uint64) error {
	if err := guard(func() { atomic.StoreUint64(&c.shards[0].consumer.asked, n) }); err != nil {
		return c.failed(err)
	}
	return nil
}

// FileID identifies a file among all files.
type FileID struct{ Device, Inode uint64 }

// File returns the identity of the ring's file.
func (r *Reader) File() (FileID, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(r.file.Fd()), &st); err != nil {
		return FileID{}, fmt.Errorf("look at ring %q: %w", r.path, err)
	}
	return FileID{uint64(st.Dev), st.Ino}, nil
}

// Named reports whether the ring's name still leads to this file. If somebody has replaced the
// file, Named returns false. If somebody has removed the file, Named returns an error.
func (r *Reader) Named() (bool, error) {
	var open unix.Stat_t
	if err := unix.Fstat(int(r.file.Fd()), &open); err != nil {
		return false, fmt.Errorf("look for ring %q: %w", r.path, err)
	}
	return leadsTo(r.path, open)
}

// leadsTo reports whether a path leads to a file, without following a link.
func leadsTo(path string, file unix.Stat_t) (bool, error) {
	var byName unix.Stat_t
	if err := unix.Lstat(path, &byName); err != nil {
		return false, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return byName.Ino == file.Ino && byName.Dev == file.Dev, nil
}

// Remove deletes the ring's file. The ring's name must still lead to this file.
func (c *Consumer) Remove() error {
	mine, err := c.Named()
	if err != nil {
		return fmt.Errorf("remove ring %q: %w", c.path, err)
	}
	if !mine {
		return fmt.Errorf("remove ring %q: another file has taken its name: %w", c.path,
			ErrUntrusted)
	}
	if err := os.Remove(c.path); err != nil {
		return fmt.Errorf("remove ring: %w", err)
	}
	return nil
}
