//go:build !race

//lint:file-ignore U1000 assembly uses the constants

package handlers

import (
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// log is the log call for amd64, in log_amd64.s. It calls logGo in rare cases.
//
//go:noescape
func log(c *Channel, id uint64)

//go:noescape
func putPinned(c *Channel, id, processor uint64) bool

// logMany is the log call of a channel with many writers whose handler keeps every event.
//
//lint:ignore U1000 assembly jumps here
func logMany(c *Channel, id uint64) {
	written := putPinned(c, id, uint64(pin()))
	unpin()
	if !written {
		c.recordEvent(id)
	}
}

// Assembly can use only constants of its own package. So these constants repeat offsets and sizes
// of package ring for log_amd64.s.
const (
	shardTail    = unsafe.Offsetof(ring.Shard{}.Tail)
	shardRecords = unsafe.Offsetof(ring.Shard{}.Records)
	shardMask    = unsafe.Offsetof(ring.Shard{}.Mask)
	shardLimit   = unsafe.Offsetof(ring.Shard{}.Limit)
	shardBytes   = unsafe.Sizeof(ring.Shard{})

	recordBytes    = ring.RecordBytes
	tailFromWord   = ring.TailFromWord
	firstLastCount = ring.FirstLastCount
)
