package tscratio

import "math/bits"

// Products of two differences of counter values need more than 64 bits. With these limits (symbols:
// see doc.go; anchor: see centredPolygon) every product fits into 127 bits:
//
//	|b − y| ≤ 2⁴⁶, |a − anchor| ≤ 2⁶⁰, rates ≤ 2¹⁴,
//
// so a cross product is at most 2·2⁴⁸·2⁶² and a value a + (x − b)·rate at most 2⁶⁰ + 2⁶².
const (
	maxReach_cycles    = 1 << 46 // half-length of the longest window: 3.9 h at 5 GHz
	maxRelative_cycles = 1 << 60
	// maxRate is the largest relative rate: 5 GHz over 1 MHz is only 5,000.
	maxRate = 1 << 14
)

// wideInt is a signed 128-bit integer in two's complement.
type wideInt struct {
	hi int64
	lo uint64
}

func product(x, y int64) wideInt {
	hi, lo := bits.Mul64(uint64(x), uint64(y))
	// The unsigned product treats a negative x as x + 2⁶⁴, so the product is too large by y·2⁶⁴.
	// The same holds for a negative y.
	return wideInt{int64(hi) - (x >> 63 & y) - (y >> 63 & x), lo}
}

func (v wideInt) minus(w wideInt) wideInt {
	lo, borrow := bits.Sub64(v.lo, w.lo, 0)
	return wideInt{v.hi - w.hi - int64(borrow), lo}
}

// isLess reports whether v < w.
func (v wideInt) isLess(w wideInt) bool { return v.hi < w.hi || v.hi == w.hi && v.lo < w.lo }

// floorDiv returns the greatest integer ≤ v/d, for d > 0. The quotient must fit an int64. The
// limits of maxReach_cycles, maxRelative_cycles and maxRate ensure that.
func (v wideInt) floorDiv(d int64) int64 {
	if v.hi < 0 {
		return -wideInt{}.minus(v).ceilDiv(d)
	}
	q, _ := bits.Div64(uint64(v.hi), v.lo, uint64(d))
	return int64(q)
}

// ceilDiv returns the smallest integer ≥ v/d, for d > 0 and a quotient that fits an int64.
func (v wideInt) ceilDiv(d int64) int64 {
	if v.hi < 0 {
		return -wideInt{}.minus(v).floorDiv(d)
	}
	q, r := bits.Div64(uint64(v.hi), v.lo, uint64(d))
	if r != 0 {
		q++
	}
	return int64(q)
}

// scaleDown returns x·f/2ⁿ rounded down, for a result below 2⁶⁴ and 0 < n < 64.
func scaleDown(x, f uint64, n uint) uint64 {
	hi, lo := bits.Mul64(x, f)
	return hi<<(64-n) | lo>>n
}

// scaleUp returns x·f/2ⁿ rounded up, for a result below 2⁶⁴ and 0 < n < 64.
func scaleUp(x, f uint64, n uint) uint64 {
	hi, lo := bits.Mul64(x, f)
	lo, carry := bits.Add64(lo, 1<<n-1, 0)
	return (hi+carry)<<(64-n) | lo>>n
}

// shiftedQuotient returns x·2ⁿ/d rounded down, and whether it was rounded. The quotient must fit 64
// bits.
func shiftedQuotient(x uint64, n uint, d uint64) (q uint64, inexact bool) {
	q, r := bits.Div64(x>>(64-n), x<<n, d)
	return q, r != 0
}

// offset returns base + d, clamped to the counter's range.
func offset(base uint64, d int64) uint64 {
	if d < 0 {
		return base - min(base, uint64(-d))
	}
	return base + min(^uint64(0)-base, uint64(d))
}
