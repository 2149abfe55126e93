package ring

import (
	"sync/atomic"
	"unsafe"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// FirstLastCount is the offset of the field count in a FirstLast. The hot path of package handlers
// writes this field.
const FirstLastCount = unsafe.Offsetof(FirstLast{}.count)

// Next returns the address of the place that the next record takes. The record after that takes the
// other of the two places. The addresses of the two places differ in bit 4. Next returns 0 if the
// first record is still missing.
func (f *FirstLast) Next() uintptr {
	n := atomic.LoadUint64(&f.count)
	if n == 0 {
		return 0
	}
	return uintptr(unsafe.Pointer(&f.last[(n+1)&1]))
}

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
