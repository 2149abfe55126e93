package virtual

import (
	"math/rand/v2"
	"time"

	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// Physical describes one machine at one moment. The clocks of the machine's virtual nodes are
// functions of the machine's clocks.
type Physical struct {
	Counter     uint64 // reading at that moment
	Realtime_ns int64  // reading at that moment
	Hz          uint64 // approximate rate of the counter
}

// Config returns a random node that could be part of a real fleet. Its counter began at a random
// value, and its rate differs from the physical rate by up to 50 ppm. Its CLOCK_REALTIME is wrong
// by up to a quarter of an hour, is steered by up to 100 ppm, and slews by a millisecond every ten
// seconds. In a run of more than ten minutes it slews less often: about sixty times in all.
//
// In windows of 20 s, the node's rate wanders by at most half of share_ppm. So if two nodes have
// the same share_ppm, their relative rate wanders by at most share_ppm.
func Config(r *rand.Rand, name string, now Physical, shape vnode.Shape, share_ppm float64,
	lasts time.Duration) vnode.Config {
	const windowSeconds = 20
	runSeconds := uint64(lasts.Seconds()) + 1
	c := vnode.DefaultConfig()
	c.Name = name
	c.Counter.Origin = now.Counter
	c.Counter.Start = r.Uint64() >> 2 // so that the counter does not wrap around during its use
	c.Counter.Rate_2e40 = vnode.PPM(r.Float64()*100 - 50)
	w := &c.Counter.Wander
	w.Shape, w.Limit_2e40 = shape, vnode.PPM(share_ppm/2)
	if shape != vnode.Steady {
		w.Limit_2e40 -= 2 // for the second-order terms of two rates, less than one unit each
	}
	w.Window_cycles = windowSeconds * now.Hz
	w.Segments = int(runSeconds*now.Hz>>w.SegmentLog2) + 1
	w.Period_cycles = uint64((10 + 30*r.Float64()) * float64(now.Hz))
	w.Settle_cycles = now.Hz * 3
	w.Seed = r.Uint64()

	rt := &c.Realtime
	rt.Origin_ns = now.Realtime_ns
	rt.Offset_ns = r.Int64N(1800e9) - 900e9
	rt.Adjustments = []vnode.Adjustment{{At_ns: now.Realtime_ns, Freq: r.Int64N(200<<16) - 100<<16,
		Tick_us: 10_000}}
	for at := int64(0); at < int64(runSeconds); at += max(10, int64(runSeconds)/60+1) {
		rt.Slews = append(rt.Slews, vnode.Slew{At_ns: now.Realtime_ns + at*1e9 + r.Int64N(7e9),
			Offset_ns: []int64{-1e6, 1e6}[r.IntN(2)], Rate_ppm: 500})
	}
	return c
}
