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

// AnyInstance has OpenIDs choose an instance that no other program on this node has.
const AnyInstance = -1

// idLease is how many counts are taken from the file at a time. A program that dies wastes what is left of them: of 2^40, one
// part in 65,536.
const idLease = 1 << 24

// IDs makes tuple ids that no other program makes: the node's number, an instance of this node that only this program has,
// and a count that goes on where the last program with that instance ended. Any number of goroutines may use it.
type IDs struct {
	// RandomNode is true where the directory had no node number and one was drawn. Two of n such nodes have the
	// same number with a probability of n²/32768: give nodes numbers where that is too often.
	RandomNode bool

	prefix uint64        // node and instance
	next   atomic.Uint64 // the next count
	leased atomic.Uint64 // counts below it are this program's

	leasing sync.Mutex // guards what the file holds
	file    *os.File   // locked: the instance. It holds the first count that nobody has leased
}

// OpenIDs takes an instance, 0 to channel.MaxInstance or AnyInstance, for this program. dir is the ring directory as in
// Options. Errors wrap ErrInstance where another program has the instance.
func OpenIDs(dir string, instance int) (*IDs, error) {
	if dir == "" {
		dir = ring.DefaultDirectory()
	}
	if instance < AnyInstance || instance > channel.MaxInstance {
		return nil, fmt.Errorf("open ids: instance %d is not from 0 to %d: %w", instance, channel.MaxInstance, channel.ErrID)
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
		return fmt.Errorf("instance %d has another program on this node: use another number or AnyInstance: %w", instance, ErrInstance)
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
		return fmt.Errorf("read %q: %d bytes, want none or %d: remove it only when no tuple of this instance is on its way", path, n, len(b))
	}
	start := binary.LittleEndian.Uint64(b[:])
	ids.next.Store(start)
	ids.leased.Store(start)
	if !ids.lease(start) {
		ids.file.Close()
		return fmt.Errorf("instance %d of this node has made all of its ids, or %q cannot be written: use another: %w", instance, path, ErrInstance)
	}
	return nil
}

// Next makes an id. ok is false when this instance has made all of its 2^40 ids, or its file cannot be written any more.
func (ids *IDs) Next() (id uint64, ok bool) {
	// A count that led to no id is not given back: another call may have gone on behind it.
	count := ids.next.Add(1) - 1
	if count >= ids.leased.Load() && !ids.lease(count) {
		return 0, false
	}
	return ids.prefix | count, true
}

// lease makes counts this program's, up to count and beyond.
func (ids *IDs) lease(count uint64) bool {
	ids.leasing.Lock()
	defer ids.leasing.Unlock()
	for count >= ids.leased.Load() {
		// The last count of an instance is left out: on the last node and instance it is the poison.
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

// Close gives the instance back. No id may be made after it.
func (ids *IDs) Close() error { return ids.file.Close() }
