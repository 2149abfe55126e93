package host

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

var (
	// ErrCounterStill is returned if the counter never moved while it was read.
	ErrCounterStill = errors.New("counter stands still")

	// ErrCounterBackwards is returned if the counter went backwards on one core.
	ErrCounterBackwards = errors.New("counter went backwards on one core")
)

// Quantum is the step in which a counter really moves. Imagine an ideal counter that moves evenly.
// If the real counter shows v, the ideal counter is in [v, v + Step_cycles).
//
// If a counter moves in even steps, all differences of its readings are multiples of the step.
// Their greatest common divisor is then the step, or a multiple of the step, which only makes
// bounds wider. Each further distinct difference halves the probability of a multiple.
//
// If a hypervisor scales the counter, its steps alternate between two neighbouring integers. The
// greatest common divisor of the differences is then 1, which is smaller than the true step.
// MeasureQuantum recognises such a counter because all differences are close to multiples of one
// real number, ρ. If there are so few distinct differences that this may be chance, MeasureQuantum
// takes the step that ρ gives, because it is larger than the divisor.
//
// MeasureQuantum does not recognise two kinds of uneven steps. The first kind are steps below 8
// cycles. The second kind are steps that are nearly even: over all readings, their unevenness adds
// up to less than one cycle. With 20,000 readings, that is a scale within 1 ppm of a whole number.
// (KVM scales by 250 ppm or more, or not at all.) The ideal counter may then be one or two cycles
// further than Step_cycles allows.
type Quantum struct {
	Step_cycles uint64 `json:"step_cycles,string"`
	Uneven      bool   `json:"uneven"` // steps alternate between two integers, because of scaling
	Readings    int    `json:"readings"`
	Moves       int    `json:"moves"` // readings that differed from the previous one
	// Different is the number of distinct differences of successive readings. The more there are,
	// the surer is the step.
	Different int `json:"different"`
	// The readings are divided into 8 blocks. Dissenting is how many of the blocks, each taken
	// alone, would give a smaller step.
	Dissenting int  `json:"dissenting"`
	AtMost     bool `json:"at_most"` // there are few distinct differences: the step may be smaller
}

const (
	quantumBlocks = 8

	// quantumEvidence is the smallest number of distinct differences with which the greatest common
	// divisor of a block is used. With this many, the probability that the divisor is a multiple of
	// the step is less than 2^-7.
	quantumEvidence = 8

	// A scaled step is accepted in two cases. First, the differences of a counter without steps
	// would fit the scaled step only with a probability below 2^-scaledEvidenceBits. Second, there
	// are fewer than scaledFew distinct differences, which are too few to refute the scaled step.
	scaledEvidenceBits = 40
	scaledFew          = 32

	// smallestScaled is the smallest scaled step that scaledStep looks for, in cycles.
	smallestScaled = 8
)

// MeasureQuantum reads the counter the given number of times on the calling thread, with gaps of
// different lengths. The thread must stay on one core (see OnCore). 20,000 readings take about a
// millisecond.
func MeasureQuantum(counter func() uint64, readings int) (Quantum, error) {
	if readings < 2 {
		return Quantum{}, fmt.Errorf("measure quantum: %d readings: at least 2 are needed",
			readings)
	}
	values := make([]uint64, readings)
	random := uint64(0x9e3779b97f4a7c15)
	sink := uint64(0)
	for i := range values {
		// If all gaps had the same length, there would be only two or three distinct differences.
		random ^= random << 13
		random ^= random >> 7
		random ^= random << 17
		gap := random & 31
		if i&63 == 0 {
			gap = random & 1023
		}
		for range gap {
			sink += random
		}
		values[i] = counter()
	}
	sinkhole = sink
	return quantumOf(values)
}

// sinkhole keeps the compiler from removing the gaps.
//
//lint:ignore U1000 it is only written
var sinkhole uint64

// quantumOf computes the quantum from readings. It reads nothing itself.
func quantumOf(values []uint64) (Quantum, error) {
	q := Quantum{Readings: len(values)}
	var differences []uint64
	var divisors []uint64 // the greatest common divisor of each block's differences
	rich := uint64(0)     // the largest divisor of any block with enough evidence
	size := (len(values) + quantumBlocks - 1) / quantumBlocks
	for start := 0; start < len(values); start += size {
		divisor := uint64(0)
		different := map[uint64]bool{}
		for i := max(start, 1); i < min(start+size, len(values)); i++ {
			d := values[i] - values[i-1]
			if int64(d) < 0 {
				return q, fmt.Errorf("measure quantum: reading %d after %d: "+
					"pin the thread to one core, and do not use this counter if it is pinned: %w",
					values[i], values[i-1], ErrCounterBackwards)
			}
			if d == 0 {
				continue
			}
			differences = append(differences, d)
			different[d] = true
			divisor = gcd(divisor, d)
		}
		divisors = append(divisors, divisor)
		if len(different) >= quantumEvidence {
			rich = max(rich, divisor)
		}
	}
	q.Moves = len(differences)
	if q.Moves == 0 {
		return q, fmt.Errorf("measure quantum: %d readings, all %d: %w",
			len(values), values[0], ErrCounterStill)
	}
	slices.Sort(differences)
	distinct := slices.Compact(differences)
	q.Different = len(distinct)

	// The largest divisor of any block is the safe choice. If all steps are equal, only a live
	// migration between two readings can make a divisor too small, and only the divisor of one
	// block.
	q.Step_cycles = rich
	if rich == 0 { // no block has enough distinct differences: use all together
		for _, d := range distinct {
			q.Step_cycles = gcd(q.Step_cycles, d)
		}
		q.AtMost = q.Different < quantumEvidence
	}
	for _, d := range divisors {
		if d%q.Step_cycles != 0 {
			q.Dissenting++
		}
	}
	// If a block disagrees, there are two explanations. A live migration changed one difference, in
	// one block, by any amount. Or the steps are uneven by so little that most blocks do not show
	// it. The second explanation is likely if several blocks disagree, or if a difference that does
	// not fit is about as short as the others.
	if q.Step_cycles == 1 || q.Dissenting > 1 || hasShortStray(distinct, q.Step_cycles) {
		step, sure, ok := scaledStep(distinct, q.Step_cycles >= smallestScaled)
		if ok && step+1 > q.Step_cycles {
			// A reading of floor(k·ρ) means that the ideal counter is in [k·ρ, (k+1)·ρ). So it is
			// beyond the reading by up to ρ plus the fraction that was cut off.
			q.Step_cycles, q.Uneven, q.Dissenting, q.AtMost = step+1, true, 0, !sure
		}
	}
	return q, nil
}

// hasShortStray reports whether there is a short difference that is no multiple of the step. Short
// means at most twice as long as the longest difference that is a multiple. The differences must be
// sorted.
func hasShortStray(distinct []uint64, step_cycles uint64) bool {
	shortest, longest := uint64(0), uint64(0)
	for _, d := range distinct {
		if d%step_cycles == 0 {
			longest = d
		} else if shortest == 0 {
			shortest = d
		}
	}
	return shortest != 0 && shortest <= 2*longest
}

// scaledStep looks for the largest real step ρ ≥ 8 such that every difference is within 1 of a
// multiple of ρ. It returns ρ rounded up. sure is true if this cannot be chance. If the argument
// stepped is true, whole blocks of readings have already shown that the counter has steps. Then
// sure is true, too. The differences must be sorted and distinct.
func scaledStep(distinct []uint64, stepped bool) (step uint64, sure, ok bool) {
	smallest := float64(distinct[0])
	for multiple := 1.0; smallest/multiple >= smallestScaled; multiple++ {
		lo, hi := (smallest-1)/multiple, (smallest+1)/multiple // ρ is in (lo, hi)
		// chance is the probability that the differences of a counter without steps would fit, too.
		chance := 1.0
		fits := true
		for _, d := range distinct {
			d := float64(d)
			m := float64(int64(d/((lo+hi)/2) + 0.5))
			open := m*(hi-lo) + 2 // how many integers would fit around this multiple
			if m == 0 || open >= lo {
				continue // ρ is not known well enough yet to say which multiple this is
			}
			chance *= open / lo
			lo, hi = max(lo, (d-1)/m), min(hi, (d+1)/m)
			if lo >= hi {
				fits = false
				break
			}
		}
		sure = stepped || chance < 1.0/(1<<scaledEvidenceBits)
		if fits && (sure || len(distinct) < scaledFew) {
			return uint64(math.Ceil(hi)), sure, true
		}
	}
	return 0, false, false
}

func gcd(a, b uint64) uint64 {
	if a == 0 || b == 0 {
		return a | b
	}
	shift := bits.TrailingZeros64(a | b)
	a >>= bits.TrailingZeros64(a)
	for b != 0 {
		b >>= bits.TrailingZeros64(b)
		if a > b {
			a, b = b, a
		}
		b -= a
	}
	return a << shift
}

func (q Quantum) finding() Finding {
	f := Finding{Name: "quantum", Verdict: Fit}
	shape := "a multiple of it"
	if q.Uneven {
		shape = "within one cycle of a multiple (a scaled counter)"
	}
	f.Detail = fmt.Sprintf("the counter moves in steps of %d %s: "+
		"every difference of %d readings (%d different) is %s",
		q.Step_cycles, plural(q.Step_cycles, "cycle"), q.Readings, q.Different, shape)
	if q.AtMost {
		f.Detail += "; it may be smaller, with too few different differences to say"
	}
	if q.Dissenting > 0 {
		f.Verdict = Warning
		f.Detail = fmt.Sprintf("the counter moves in steps of %d cycles, "+
			"but %d of %d blocks of readings disagree", q.Step_cycles, q.Dissenting, quantumBlocks)
		f.Remedy = "run it again; if it stays, the counter jumped while it was read: " +
			"look at the epoch"
	}
	return f
}
