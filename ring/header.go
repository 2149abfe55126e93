package ring

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// Header is the checked identity of a ring.
type Header struct {
	Version     int // version of the layout
	Name        channel.Name
	Incarnation [16]byte
	Boot        [16]byte // zero: unknown
	Shards      int
	Records     uint64 // number of records in each shard
	ManyWriters bool
	Links       bool // opened with handler link: the records come in pairs
	Policy      channel.Policy
	Stamp       channel.Stamp

	OpenedCounter  uint64    // the counter when the program opened the ring
	OpenedEarliest time.Time // OpenedCounter was read in this interval of UTC, by this node's clock
	OpenedLatest   time.Time

	ProcessID    int    // what the program wrote; nobody has checked it
	PIDNamespace uint64 // the namespace in which ProcessID is valid; 0: unknown
	NodeNumber   int    // channel.MaxNode + 1: the directory had no number
}

// IncarnationText returns the incarnation in hexadecimal digits, as file names contain it.
func (h Header) IncarnationText() string { return hex.EncodeToString(h.Incarnation[:]) }

// FileBytes returns the length of the ring's file. The ring takes this much shared memory.
func (h Header) FileBytes() int64 { return int64(fileBytes(h.Shards, h.Records)) }

// MappedBytes returns how many bytes of the file a reader maps: the header and a page for each
// shard. The kernel can charge the reader for at most these bytes.
func (h Header) MappedBytes() int64 { return int64(recordsOffset(h.Shards)) }

// check makes a Header from an identity that anyone may have written.
func (id *identity) check(size int64) (Header, error) {
	var h Header
	if string(id.magic[:]) != magic {
		return h, fmt.Errorf("it starts with %q, a ring with %q: %w",
			id.magic[:], magic, ErrDamaged)
	}
	if id.version < firstVersion || id.version > version {
		return h, fmt.Errorf("layout version %d, this program knows %d to %d: %w: "+
			"use the agent of the program's release, or of a later one",
			id.version, firstVersion, version, ErrVersion)
	}
	if sum := id.sum(); sum != id.checksum {
		return h, fmt.Errorf("identity's checksum is %#x and should be %#x: %w", id.checksum, sum,
			ErrDamaged)
	}
	switch {
	case id.shards < 1 || id.shards > MaxShards || id.shards&(id.shards-1) != 0:
		return h, fmt.Errorf("%d shards: %w", id.shards, ErrDamaged)
	case id.records < MinRecords || id.records > MaxRecords || id.records&(id.records-1) != 0:
		return h, fmt.Errorf("%d records a shard: %w", id.records, ErrDamaged)
	case uint64(id.shards)*id.records > MaxRecords:
		return h, fmt.Errorf("%d shards of %d records: %w", id.shards, id.records, ErrDamaged)
	case id.manyWriters > 1 || id.manyWriters == 0 && id.shards != 1:
		return h, fmt.Errorf("many-writers mark %d with %d shards: %w", id.manyWriters, id.shards,
			ErrDamaged)
	case id.fileBytes != uint64(fileBytes(int(id.shards), id.records)) ||
		int64(id.fileBytes) != size:
		return h, fmt.Errorf("%d bytes, the header says %d and its numbers make %d: %w", size,
			id.fileBytes, fileBytes(int(id.shards), id.records), ErrDamaged)
	case id.links > 1:
		return h, fmt.Errorf("links mark %d: %w", id.links, ErrDamaged)
	case !channel.Policy(id.policy).Known() || !channel.Stamp(id.stamp).Known():
		return h, fmt.Errorf("%s and %s: %w", channel.Policy(id.policy), channel.Stamp(id.stamp),
			ErrDamaged)
	case id.manyWriters == 1 && (channel.Policy(id.policy) == channel.Overwrite ||
		channel.Stamp(id.stamp) != channel.Ordered):
		return h, fmt.Errorf("many writers with %s and %s: %w", channel.Policy(id.policy),
			channel.Stamp(id.stamp), ErrDamaged)
	case int(id.nameBytes) > len(id.name):
		return h, fmt.Errorf("a name of %d bytes: %w", id.nameBytes, ErrDamaged)
	case id.openedUTCLo_ns > id.openedUTCHi_ns:
		return h, fmt.Errorf("opened between %d and %d ns: %w", id.openedUTCLo_ns,
			id.openedUTCHi_ns, ErrDamaged)
	case id.nodeNumber > channel.MaxNode+1:
		return h, fmt.Errorf("node number %d: %w", id.nodeNumber, ErrDamaged)
	}
	name, err := channel.ParseName(string(id.name[:id.nameBytes]))
	if err != nil {
		return h, fmt.Errorf("%w: %w", err, ErrDamaged)
	}
	if !bytes.Equal(id.name[id.nameBytes:], make([]byte, len(id.name)-int(id.nameBytes))) {
		return h, fmt.Errorf("bytes after the name %q: %w", name, ErrDamaged)
	}
	return Header{
		Version: int(id.version),
		Name:    name, Incarnation: id.incarnation, Boot: id.boot,
		Shards: int(id.shards), Records: id.records, ManyWriters: id.manyWriters == 1,
		Links:  id.links == 1,
		Policy: channel.Policy(id.policy), Stamp: channel.Stamp(id.stamp),
		OpenedCounter:  id.openedCounter,
		OpenedEarliest: time.Unix(0, id.openedUTCLo_ns).UTC(),
		OpenedLatest:   time.Unix(0, id.openedUTCHi_ns).UTC(),
		ProcessID:      int(id.pid), PIDNamespace: id.pidNamespace, NodeNumber: int(id.nodeNumber),
	}, nil
}
