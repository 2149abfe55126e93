package callgen

import (
	"math/rand/v2"
	"strconv"
)

// Random returns an invented application of 6 to 10 services. The seed decides which services call
// which others, in which order, and after which delays.
func Random(seed uint64) App {
	r := rand.New(rand.NewPCG(seed, 2222))
	n := 6 + r.IntN(5)
	name := func(i int) string { return "s" + strconv.Itoa(i) }
	app := App{Front: name(0), Services: map[string]Service{}, Laws: map[string]Law{},
		Clients:    r.IntN(3) > 0,
		Quantum_us: 1}
	compute := func() Step {
		return Step{Compute_us: 20 * float64(int(1)<<r.IntN(8)) * (0.5 + r.Float64()),
			Spread: 0.2 + 0.9*r.Float64()}
	}
	scripts := make([]int, n) // number of scripts
	for i := range scripts {
		scripts[i] = 1 + r.IntN(2)
	}
	scripts[0] = 1 + r.IntN(4)
	caches := r.IntN(2) == 0
	for i := range n {
		s := Service{Threads: []int{8, 16, 64}[r.IntN(3)]}
		for range scripts[i] {
			var script []Step
			steps := 0
			if i < n-1 && (i == 0 || r.IntN(5) < 3) {
				steps = 1 + r.IntN(2)
			}
			for range steps {
				step := compute()
				// A step often calls one service, and sometimes up to four different services at
				// once.
				others := r.Perm(min(n-1-i, 4))
				for _, other := range others[:min(len(others), 1+r.IntN(2)*r.IntN(4))] {
					callee := i + 1 + other
					t := Target{Service: name(callee), Script: r.IntN(scripts[callee])}
					if caches {
						t.Skip = []float64{0, 0, .3, .7}[r.IntN(4)]
						t.Retry = []float64{0, 0, 0, .05}[r.IntN(4)]
						t.Async = r.IntN(12) == 0
					}
					step.Calls = append(step.Calls, t)
				}
				script = append(script, step)
			}
			s.Scripts = append(s.Scripts, append(script, compute()))
		}
		app.Services[name(i)], app.Laws[name(i)] = s, Law(r.IntN(laws))
	}
	return app
}
