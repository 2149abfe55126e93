package dataset

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

var (
	gapNames     = []string{"loop", "poisson1us", "poisson20us", "bursts"}
	idNames      = []string{"seq", "shuffled64", "random"}
	quantumNames = []string{"q1", "q26"}
)

const (
	cyclesPerMicrosecond = 2600

	burstRecords        = 256 // a gap is idle with probability 1/burstRecords
	idleMinimum_cycles  = 100 * cyclesPerMicrosecond
	idleMean_cycles     = 1000 * cyclesPerMicrosecond // mean time above the minimum
	interruptionRecords = 2000                        // one in this many loop gaps is long
	interruption_cycles = 2000                        // mean time above interruptionMinimum
	interruptionMinimum = 300
	shuffleGroup        = 64
)

// The gaps named loop are those of a program that does nothing but log, so they are short:
// loopFirst_cycles, loopFirst_cycles+1 and so on. loopWeights says how often each of these gaps
// occurs.
var loopWeights = []float64{1, 4, 10, 10, 4, 1}

const loopFirst_cycles = 47

// If the counter moves in steps, a short gap within a burst is one or two steps long. coarseTight
// says how often each of the two lengths occurs.
var coarseTight = []float64{1, 9}

// Names lists all sets in a fixed order.
func Names() []string {
	var names []string
	for _, g := range gapNames {
		for _, i := range idNames {
			for _, q := range quantumNames {
				names = append(names, g+"/"+i+"/"+q)
			}
		}
	}
	return names
}

// Set is an endless stream of records. One goroutine at a time may use it.
type Set struct {
	Name    string
	Gaps    string
	IDs     string
	Quantum uint64 // cycles

	rng *rand.Rand

	steps    uint64  // whole steps of the counter so far
	fraction float64 // poisson: elapsed part of the step, in [0, 1)
	cycles   uint64  // loop: cycles within the step
	started  bool

	id    uint64
	group [shuffleGroup]uint64
	used  int // number of ids of group that were used
}

// New returns the set with the given name. The same name and seed give the same records.
func New(name string, seed uint64) (*Set, error) {
	part := strings.Split(name, "/")
	if len(part) != 3 || !slices.Contains(gapNames, part[0]) ||
		!slices.Contains(idNames, part[1]) || !slices.Contains(quantumNames, part[2]) {
		return nil, fmt.Errorf("data set %q: want GAPS/IDS/QUANTUM of %v, %v, %v",
			name, gapNames, idNames, quantumNames)
	}
	s := &Set{
		Name: name, Gaps: part[0], IDs: part[1], Quantum: 1,
		rng:  rand.New(rand.NewPCG(seed, uint64(len(name)))),
		used: shuffleGroup,
	}
	if part[2] == "q26" {
		s.Quantum = 26
	}
	s.steps = 1<<50/s.Quantum + s.rng.Uint64N(1<<30) // a machine that has been up for days
	s.id = s.rng.Uint64N(1 << 40)
	return s, nil
}

// Fill writes the next len(counters) records of the stream. ids must have the same length as
// counters.
func (s *Set) Fill(counters, ids []uint64) {
	for i := range counters {
		if s.started {
			s.step()
		}
		s.started = true
		counters[i] = s.steps * s.Quantum
		ids[i] = s.nextID()
	}
}

func (s *Set) step() {
	switch s.Gaps {
	case "loop":
		gap := loopFirst_cycles + s.draw(loopWeights)
		if s.rng.Uint64N(interruptionRecords) == 0 {
			gap += interruptionMinimum + s.geometric(interruption_cycles)
		}
		s.cycles += gap
		s.steps += s.cycles / s.Quantum
		s.cycles %= s.Quantum
	case "poisson1us":
		s.poisson(cyclesPerMicrosecond)
	case "poisson20us":
		s.poisson(20 * cyclesPerMicrosecond)
	case "bursts":
		switch {
		case s.rng.Uint64N(burstRecords) == 0:
			s.steps += idleMinimum_cycles/s.Quantum +
				s.geometric(idleMean_cycles/float64(s.Quantum))
		case s.Quantum == 1:
			s.steps += loopFirst_cycles + s.draw(loopWeights)
		default:
			s.steps += 1 + s.draw(coarseTight)
		}
	}
}

func (s *Set) poisson(mean_cycles float64) {
	t := s.fraction + s.rng.ExpFloat64()*mean_cycles/float64(s.Quantum)
	whole := math.Floor(t)
	s.steps += uint64(whole)
	s.fraction = t - whole
}

// geometric draws from P(n) = (1-r)·rⁿ with a given mean. It draws an exponential and rounds it
// down to an integer.
func (s *Set) geometric(mean float64) uint64 {
	return uint64(s.rng.ExpFloat64() / math.Log1p(1/mean))
}

func (s *Set) draw(weights []float64) uint64 {
	x := s.rng.Float64() * sum(weights)
	for i, w := range weights {
		if x -= w; x < 0 {
			return uint64(i)
		}
	}
	return uint64(len(weights) - 1)
}

func (s *Set) nextID() uint64 {
	switch s.IDs {
	case "random":
		return s.rng.Uint64()
	case "shuffled64":
		if s.used == shuffleGroup {
			for i := range s.group {
				s.group[i] = s.id + uint64(i)
			}
			s.id += shuffleGroup
			s.rng.Shuffle(shuffleGroup, func(i, j int) {
				s.group[i], s.group[j] = s.group[j],
					s.group[i]
			})
			s.used = 0
		}
		s.used++
		return s.group[s.used-1]
	}
	s.id++
	return s.id - 1
}

// EntropyBits returns the entropy rate of each column in bits a record, computed from the
// distribution. If the set's gaps are those named loop, there is no formula of the counter's
// entropy, so EntropyBits returns NaN. Then [PlugIn] can measure the entropy.
func (s *Set) EntropyBits() (counter, id float64) {
	q := float64(s.Quantum)
	switch s.Gaps {
	case "poisson1us":
		counter = poissonBits(q/cyclesPerMicrosecond) / (q / cyclesPerMicrosecond)
	case "poisson20us":
		counter = poissonBits(q/(20*cyclesPerMicrosecond)) / (q / (20 * cyclesPerMicrosecond))
	case "bursts":
		tight := bits(loopWeights)
		if s.Quantum != 1 {
			tight = bits(coarseTight)
		}
		counter = bits([]float64{1, burstRecords - 1}) + tight*(burstRecords-1)/burstRecords +
			geometricBits(idleMean_cycles/q)/burstRecords
	default:
		counter = math.NaN()
	}
	switch s.IDs {
	case "shuffled64":
		factorial, _ := math.Lgamma(shuffleGroup + 1)
		id = factorial / math.Ln2 / shuffleGroup
	case "random":
		id = 64
	}
	return counter, id
}

// The function bits returns the entropy of a random choice with these weights.
func bits(weights []float64) float64 {
	total, h := sum(weights), 0.0
	for _, w := range weights {
		if w > 0 {
			h -= w / total * math.Log2(w/total)
		}
	}
	return h
}

func sum(weights []float64) float64 {
	total := 0.0
	for _, w := range weights {
		total += w
	}
	return total
}

// geometricBits returns the entropy of P(n) = (1-r)·rⁿ with a given mean.
func geometricBits(mean float64) float64 {
	p := 1 / (1 + mean)
	return (-p*math.Log2(p) - (1-p)*math.Log2(1-p)) / p
}

// poissonBits returns the entropy of a Poisson distribution with a small mean.
func poissonBits(mean float64) float64 {
	h := 0.0
	for k := 0.0; k < 60; k++ {
		factorial, _ := math.Lgamma(k + 1)
		log := k*math.Log(mean) - mean - factorial
		h -= math.Exp(log) * log / math.Ln2
	}
	return h
}

// PlugIn computes the entropy of the differences in a column from how often each difference occurs
// (the plug-in entropy). Its zero value is ready to use.
type PlugIn struct {
	count map[uint64]uint64
	total uint64
	last  uint64
}

// Observe counts the differences in a column. The column continues the one of the previous call.
func (p *PlugIn) Observe(column []uint64) {
	if p.count == nil {
		p.count = make(map[uint64]uint64)
	}
	for i, v := range column {
		if i > 0 || p.total > 0 {
			p.count[v-p.last]++
		}
		p.last = v
		p.total++
	}
}

// Bits returns the entropy of what was observed, in bits a record.
func (p *PlugIn) Bits() float64 {
	var weights []float64
	for _, c := range p.count {
		weights = append(weights, float64(c))
	}
	return bits(weights)
}
