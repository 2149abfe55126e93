package handlers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// ErrInstance is returned when another program on this node makes ids for the same instance.
var ErrInstance = errors.New("instance is taken")

// AnyInstance tells OpenIDs to choose an instance that no other program on this node has.
const AnyInstance = -1

// idLease is how many counts a program takes from the file at a time. A program that dies wastes
// what is left of them: at most one part in 65,536 of the 2^40 that there are.
const idLease = 1 << 24

// IDs makes tuple ids that no other program makes. An id has the node's number, an instance of this
// node that only this program has, and a count, which begins where the last program with that
// instance ended. Any number of goroutines may use it.
type IDs struct {
	// RandomNode is true if the directory had no node number and one was drawn. Among n such nodes,
	// two have the same number with a probability of n²/32768. Give nodes numbers if that is too
	// much.
	RandomNode bool

	prefix uint64        // node and instance
	next   atomic.Uint64 // the next count
	leased atomic.Uint64 // counts below it are this program's

	leasing sync.Mutex // guards the file's content
	file    *os.File   // has the first count that nobody has leased; its lock is the instance
}

// OpenIDs takes an instance for this program: one from 0 to channel.MaxInstance, or AnyInstance.
// dir is the directory of rings, as in Options. The error wraps ErrInstance if another program has
// the instance.
func OpenIDs(dir string, instance int) (*IDs, error) {
	if dir == "" {
		dir = ring.DefaultDirectory()
	}
	if instance < AnyInstance || instance > channel.MaxInstance {
		return nil, fmt.Errorf("open ids: instance %d is not from 0 to %d: %w",
			instance, channel.MaxInstance, channel.ErrID)
	}
	if err := ring.MakeDirectory(dir); err != nil {
		return nil, fmt.Errorf("open ids: %w", err)
	}
	node, known, err := ring.NodeNumber(dir)
	if err != nil {
		return nil, fmt.Errorf("open ids: %w", err)
	}
	if !known {
		node = rand.IntN(channel.MaxNode + 1)
	}
	first, last := instance, instance
	if instance == AnyInstance {
		first, last = 0, channel.MaxInstance
	}
	for i := first; i <= last; i++ {
		ids := &IDs{RandomNode: !known}
		err := ids.take(dir, node, i)
		if err == nil {
			return ids, nil
		}
		if !errors.Is(err, ErrInstance) || i == last {
			return nil, fmt.Errorf("open ids: %w", err)
		}
	}
	panic("unreachable")
}

func (ids *IDs) take(dir string, node, instance int) error {
	path := filepath.Join(dir, fmt.Sprintf("ids-%04d", instance))
	var err error
	ids.file, err = ring.OpenLocked(path)
	if errors.Is(err, ring.ErrLocked) {
		return fmt.Errorf("instance %d has another program on this node: use another number or "+
			"AnyInstance: %w", instance, ErrInstance)
	}
	if err != nil {
		return err
	}
	if ids.prefix, err = channel.NewID(node, instance, 0); err != nil {
		ids.file.Close()
		return err
	}
	var b [8]byte
	n, err := ids.file.ReadAt(b[:], 0)
	switch {
	case err != nil && err != io.EOF:
		ids.file.Close()
		return fmt.Errorf("read %q: %w", path, err)
	case n != 0 && n != len(b):
		ids.file.Close()
		return fmt.Errorf("read %q: %d bytes, want none or %d: remove it only when no tuple of "+
			"this instance is on its way", path, n, len(b))
	}
	start := binary.LittleEndian.Uint64(b[:])
	ids.next.Store(start)
	ids.leased.Store(start)
	if !ids.lease(start) {
		ids.file.Close()
		return fmt.Errorf("instance %d of this node has made all of its ids, or %q cannot be "+
			"written: use another: %w", instance, path, ErrInstance)
	}
	return nil
}

// Next makes an id. ok is false if this instance has made all of its 2^40 ids, or its file cannot
// be written any more.
func (ids *IDs) Next() (id uint64, ok bool) {
	// A count that led to no id is not given back: another call may have taken the next one.
	count := ids.next.Add(1) - 1
	if count >= ids.leased.Load() && !ids.lease(count) {
		return 0, false
	}
	return ids.prefix | count, true
}

// lease takes counts from the file for this program, up to count and beyond.
func (ids *IDs) lease(count uint64) bool {
	ids.leasing.Lock()
	defer ids.leasing.Unlock()
	for count >= ids.leased.Load() {
		// The last count of an instance is never used: of the last node and instance it is the
		// poison.
		end := min(ids.leased.Load()+idLease, channel.MaxCount)
		if count >= channel.MaxCount {
			return false
		}
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], end)
		if _, err := ids.file.WriteAt(b[:], 0); err != nil {
			return false
		}
		ids.leased.Store(end)
	}
	return true
}

// Close gives the instance back. Make no id after it.
func (ids *IDs) Close() error { return ids.file.Close() }
