package ring

import (
	"sync/atomic"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// The hot path finds the fields count and last of a FirstLast at these offsets.
const (
	FirstLastCountOffset = unsafe.Offsetof(FirstLast{}.count)
	FirstLastLastOffset  = unsafe.Offsetof(FirstLast{}.last)
)

// Put stores a record. Only one writer at a time may call it. Put increases f.count only at the
// end; until then, readers see the previous record as the last one.
func (f *FirstLast) Put(r Record) {
	if r.ID == channel.Poison {
		if f.poison == 0 {
			atomic.StoreUint64(&f.poison, r.Counter)
		}
		return
	}
	n := atomic.LoadUint64(&f.count)
	if n == 0 {
		f.first.store(r)
	}
	f.last[(n+1)&1].store(r)
	atomic.StoreUint64(&f.count, n+1)
}

func (r *Record) store(from Record) {
	atomic.StoreUint64(&r.Counter, from.Counter)
	atomic.StoreUint64(&r.ID, from.ID)
}

func (r *Record) load() Record {
	return Record{Counter: atomic.LoadUint64(&r.Counter), ID: atomic.LoadUint64(&r.ID)}
}
