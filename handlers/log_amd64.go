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

// Offsets and sizes from package ring for log_amd64.s. Assembly can use only constants of its own
// package.
const (
	shardTail    = unsafe.Offsetof(ring.Shard{}.Tail)
	shardRecords = unsafe.Offsetof(ring.Shard{}.Records)
	shardMask    = unsafe.Offsetof(ring.Shard{}.Mask)
	shardLimit   = unsafe.Offsetof(ring.Shard{}.Limit)
	shardBytes   = unsafe.Sizeof(ring.Shard{})

	firstLastCount = ring.FirstLastCountOffset
	firstLastLast  = ring.FirstLastLastOffset
)
