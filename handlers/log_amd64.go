//go:build !race

//lint:file-ignore U1000 assembly uses the constants

package handlers

import (
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/ring"
)

// log is the log call of amd64, in log_amd64.s. It leaves rare cases to logGo.
//
//go:noescape
func log(c *Channel, id uint64)

// Offsets and sizes of package ring for log_amd64.s: assembly sees only constants of its own
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
