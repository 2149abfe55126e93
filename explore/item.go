package explore

import (
	"cmp"
	"encoding/binary"

	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// item is one row of a track: a tuple's stay in a lane, one duration of a tuple, or a pause of a
// JVM. Its place on the track is the moment at which it began. The moment is an interval.
type item struct {
	track uint32
	// The interval of the moment is [mid − ⌊width/2⌋, mid − ⌊width/2⌋ + width], in cycles.
	mid, width uint64
	lo, hi     int64 // the duration, in cycles
	id         uint64
	instance   uint32 // the lane in which the duration ended
	suspect    bool
	instant    bool   // a single event: there is no duration
	ended      uint32 // 1 + the point at which the tuple ended; 0: not in this stay
}

func (i *item) begin() tscratio.Interval {
	lo := i.mid - i.width/2
	return tscratio.Interval{Lo: lo, Hi: lo + i.width}
}

// end returns the interval of the moment at which the duration ended.
func (i *item) end() tscratio.Interval {
	b := i.begin()
	return tscratio.Interval{Lo: moveReading(b.Lo, i.lo), Hi: moveReading(b.Hi, i.hi)}
}

// moveReading returns the sum of a reading and a duration, limited to the range of a counter.
func moveReading(a uint64, d int64) uint64 {
	sum := a + uint64(d)
	switch {
	case d < 0 && sum > a:
		return 0
	case d > 0 && sum < a:
		return ^uint64(0)
	}
	return sum
}

// setMoment sets the moment at which the item began.
func (i *item) setMoment(at tscratio.Interval) { i.width, i.mid = at.Width(), at.Lo+at.Width()/2 }

func compareItems(a, b *item) int {
	return cmp.Or(cmp.Compare(a.track, b.track), cmp.Compare(a.mid, b.mid), cmp.Compare(a.id, b.id),
		cmp.Compare(a.lo, b.lo), cmp.Compare(a.hi, b.hi))
}

// appendItem encodes an item as its difference from the item before it in the same block. The items
// of a block come in the order of compareItems.
func appendItem(to []byte, i, before *item) []byte {
	to = binary.AppendUvarint(to, uint64(i.track-before.track))
	to = binary.AppendUvarint(to, i.mid-before.mid) // wraps around where a track begins
	to = binary.AppendUvarint(to, i.width)
	to = binary.AppendVarint(to, i.lo)
	to = binary.AppendUvarint(to, uint64(i.hi)-uint64(i.lo))
	to = binary.AppendVarint(to, int64(i.id-before.id))
	to = binary.AppendUvarint(to, uint64(i.instance))
	flags := uint64(i.ended) << 2
	if i.suspect {
		flags |= 1
	}
	if i.instant {
		flags |= 2
	}
	return binary.AppendUvarint(to, flags)
}

// readItem reads the next item of a block. The next item is encoded as its difference from the
// previous item, which i has before the call. Afterwards i is the next item.
func readItem(r *reader, i *item) {
	i.track += uint32(r.number())
	i.mid += r.number()
	i.width = r.number()
	i.lo = r.signed()
	i.hi = int64(uint64(i.lo) + r.number())
	i.id += uint64(r.signed())
	i.instance = uint32(r.number())
	flags := r.number()
	i.suspect, i.instant, i.ended = flags&1 != 0, flags&2 != 0, uint32(flags>>2)
	if i.hi < i.lo {
		r.bad = true
	}
}

// reader reads numbers of variable length. After the first invalid number, the field bad is true,
// and all further numbers are 0.
type reader struct {
	data []byte
	bad  bool
}

func (r *reader) number() uint64 {
	if len(r.data) > 0 && r.data[0] < 0x80 { // most numbers are small
		v := r.data[0]
		r.data = r.data[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.bad, r.data = true, nil
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *reader) signed() int64 {
	v := r.number()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.data)) {
		r.bad, r.data = true, nil
		return nil
	}
	b := r.data[:n]
	r.data = r.data[n:]
	return b
}
