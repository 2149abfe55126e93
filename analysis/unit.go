package analysis

import (
	"fmt"
	"math/big"
	"slices"
	"unicode/utf8"
)

// A Unit is the unit of all durations in one table.
type Unit struct {
	Name  string // s, ms, µs, ns, or cycles if the frequency is not known
	power int    // the unit's size is 10^power picoseconds, or cycles
}

// UnitOf returns the unit in which the median of some durations is easy to read.
func (r Reference) UnitOf(durations []Interval) Unit {
	if !(r.FrequencyLo_hz > 0) {
		return Unit{"cycles", 0}
	}
	sizes := []*big.Int{new(big.Int)}
	for _, d := range durations {
		_, hi := r.endsInUnits(d)
		sizes = append(sizes, hi.Abs(hi))
	}
	slices.SortFunc(sizes, (*big.Int).Cmp)
	name, power := secondUnits.unitFor(sizes[len(sizes)/2])
	return Unit{name, power}
}

// endsInUnits returns the ends of an interval in picoseconds, or in cycles if the frequency is not
// known.
func (r Reference) endsInUnits(i Interval) (lo, hi *big.Int) {
	if !(r.FrequencyLo_hz > 0) {
		return big.NewInt(i.Lo_cycles), big.NewInt(i.Hi_cycles)
	}
	return r.picoseconds(i.Lo_cycles, false), r.picoseconds(i.Hi_cycles, true)
}

// In prints an interval in a unit, without the unit's name, as "473.38±0.56". The bound has at most
// two digits in most cases. If the text has more than the given number of characters, both numbers
// lose digits. The printed interval still contains the given one.
func (r Reference) In(u Unit, i Interval, characters int) string {
	lo, hi := r.endsInUnits(i)
	half := ceilDiv(new(big.Int).Sub(hi, lo), big.NewInt(2))
	for cut := min(max(0, digitsOf(half)-2), u.power); ; cut++ {
		value, need := roundInterval(lo, hi, cut)
		bound := ceilDiv(need, powerOfTen(cut))
		decimals, tens := max(0, u.power-cut), ""
		if cut > u.power {
			tens = fmt.Sprintf("e%d", cut-u.power)
		}
		text := printDecimal(value, decimals) + tens + "±" + printDecimal(bound, decimals) + tens
		if utf8.RuneCountInString(text) <= characters ||
			tens != "" && digitsOf(value) <= 1 && digitsOf(bound) <= 1 {
			return text
		}
	}
}
