package bench

import (
	"math"
	"math/rand/v2"

	"github.com/cloudprofiler/cloudprofiler/replay/clock"
)

// ClockSetting describes a system of processes that exchange messages, and the skew of their
// clocks.
type ClockSetting struct {
	Processes int     `json:"processes"`
	Skew_us   float64 `json:"skew_us"`  // E: by how much two clocks may differ
	Epoch_us  float64 `json:"epoch_us"` // I
	Delay_us  float64 `json:"delay_us"` // δ: the least delay of a message
	Rate_hz   float64 `json:"rate_hz"`  // α: messages that each process sends in a second
}

// ClockSize says what the stamps of a system contain, and how large they are.
type ClockSize struct {
	ClockSetting
	Events   int     `json:"events"`
	Offsets  float64 `json:"offsets"`  // mean number of processes that a stamp holds, with its own
	Most     int     `json:"most"`     // the largest number
	Counting float64 `json:"counting"` // share of stamps with a counter above 0
	Bytes    float64 `json:"bytes"`    // mean size of a stamp
	Broken   uint64  `json:"broken"`   // events that refute E; must be 0
}

// SimulateClocks sends messages between random pairs of processes. Each process sends at random
// times, with the given rate. A process's clock differs from the true time by at most half of the
// skew. The difference changes slowly.
func SimulateClocks(s ClockSetting, events int, seed uint64) ClockSize {
	rng := rand.New(rand.NewPCG(seed, 24))
	e := clock.Uniform(int64(math.Ceil(s.Skew_us / s.Epoch_us)))
	clocks, phase := make([]*clock.Clock, s.Processes), make([]float64, s.Processes)
	for p := range clocks {
		clocks[p], phase[p] = clock.New(p, e), rng.Float64()*2*math.Pi
	}
	// If clocks are read in whole epochs, they differ by up to one epoch more.
	swing := max(s.Skew_us-s.Epoch_us, 0) / 2
	epoch := func(p int, now_us float64) int64 {
		at := 1e6 + now_us + swing*math.Sin(phase[p]+now_us/1e6)
		return int64(at / s.Epoch_us)
	}
	type message struct {
		at_us float64
		to    int
		stamp clock.Stamp
	}
	var flying []message // sorted by arrival: all messages take equally long
	r := ClockSize{ClockSetting: s}
	note := func(c *clock.Clock) {
		held := c.Stamp().Held()
		r.Events++
		r.Offsets += float64(len(held))
		r.Most = max(r.Most, len(held))
		for _, k := range held {
			if k.Counter > 0 {
				r.Counting++
				break
			}
		}
		if text, err := c.Stamp().AppendTo(nil, e); err == nil {
			r.Bytes += float64(len(text))
		}
	}
	for now := 0.0; r.Events < events; {
		now += rng.ExpFloat64() / (s.Rate_hz * float64(s.Processes)) * 1e6
		for len(flying) > 0 && flying[0].at_us <= now {
			m := &flying[0]
			clocks[m.to].Receive(epoch(m.to, m.at_us), &m.stamp)
			note(clocks[m.to])
			flying = flying[1:]
		}
		from := rng.IntN(s.Processes)
		to := (from + 1 + rng.IntN(s.Processes-1)) % s.Processes
		clocks[from].Send(epoch(from, now))
		note(clocks[from])
		m := message{at_us: now + s.Delay_us, to: to}
		m.stamp.Copy(clocks[from].Stamp())
		flying = append(flying, m)
	}
	for _, c := range clocks {
		r.Broken += c.Broken()
	}
	n := float64(r.Events)
	r.Offsets, r.Counting, r.Bytes = r.Offsets/n, r.Counting/n, r.Bytes/n
	return r
}
