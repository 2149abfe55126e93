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

// AnyInstance makes OpenIDs choose an instance number that no other program on this node has.
const AnyInstance = -1

// idLease is the number of counts that a program takes from the file at a time. When a program
// dies, it wastes the unused counts of its lease: at most one part in 65,536 of all 2^40 counts.
const idLease = 1 << 24

// IDs makes tuple ids that no other program makes. An id consists of three parts: the node's
// number, an instance number that no other program on this node has, and a count. The count begins
// above all counts that earlier programs with that instance number have leased. Any number of
// goroutines may use the same IDs.
type IDs struct {
	// RandomNode is true if OpenIDs chose the node's number at random, because the directory had
	// none. Among n such nodes, the probability that two have the same number is about n²/32768. If
	// that is too high, give the nodes numbers.
	RandomNode bool

	prefix uint64        // the node's number and the instance number
	next   atomic.Uint64 // the next count
	leased atomic.Uint64 // this program may use counts below this one

	leasing sync.Mutex // protects the file's content
	// file contains the first count that nobody has leased. The file's lock reserves the instance.
	file *os.File
}

// OpenIDs reserves an instance number for this program. instance is from 0 to channel.MaxInstance,
// or AnyInstance for any free number. dir is the directory of rings, as in Options. The error wraps
// ErrInstance if another program has the instance number.
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

// Next makes an id. ok is false if this instance has made all of its 2^40 ids, or if the instance's
// file cannot be written any more.
func (ids *IDs) Next() (id uint64, ok bool) {
	// If lease fails, this count is lost: Next cannot give it back, because another call may
	// already have taken the next one.
	count := ids.next.Add(1) - 1
	if count >= ids.leased.Load() && !ids.lease(count) {
		return 0, false
	}
	return ids.prefix | count, true
}

// lease takes counts from the file until this program may use the given count.
func (ids *IDs) lease(count uint64) bool {
	ids.leasing.Lock()
	defer ids.leasing.Unlock()
	for count >= ids.leased.Load() {
		// The last count of an instance is never used: with the highest node and instance numbers,
		// the id would be channel.Poison.
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

// Close releases the instance number. Do not call Next after Close.
func (ids *IDs) Close() error { return ids.file.Close() }
