package callgen

import (
	"iter"

	"github.com/cloudprofiler/cloudprofiler/blackbox/calls"
)

// partSize is the number of requests in a part.
const partSize = 2000

// Parts makes the calls of an application in parts, so that any number of requests fits into the
// memory. In each part, paths begin closer together by the factor speed. Between two parts lies a
// pause. Each part counts its calls and its paths from 0.
func Parts(app App, o Options, speed float64) iter.Seq[*calls.Set] {
	const pause_ns = 50_000_000
	return func(yield func(*calls.Set) bool) {
		end := int64(0) // of the last part
		for o.Requests > 0 {
			one := o
			one.Requests = min(partSize, o.Requests)
			o.Requests -= one.Requests
			o.Seed++
			set := Make(app, one)
			Compress(set, speed)
			shift := int64(0)
			if end != 0 {
				shift = end + pause_ns - set.Calls[0].Began_ns()
				shift -= shift % (app.Quantum_us * 1000)
			}
			for i := range set.Calls {
				for _, t := range moments(&set.Calls[i]) {
					if *t != calls.Unknown {
						*t += shift
						end = max(end, *t)
					}
				}
			}
			set.Quantum_ns = app.Quantum_us * 1000
			if !yield(set) {
				return
			}
		}
	}
}
