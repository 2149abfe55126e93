package command

import (
	"fmt"
	"math"
	"strings"
)

// Thousands formats a number with a comma after each group of three digits.
func Thousands(n uint64) string {
	text := fmt.Sprint(n)
	var groups []string
	for len(text) > 3 {
		groups = append([]string{text[len(text)-3:]}, groups...)
		text = text[:len(text)-3]
	}
	return strings.Join(append([]string{text}, groups...), ",")
}

// RoundUp rounds a bound up to the given number of decimals.
func RoundUp(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Ceil(v*scale*(1-1e-12)) / scale
}

// RoundDown rounds the lower end of a range down to the given number of decimals.
func RoundDown(v float64, decimals int) float64 {
	scale := math.Pow10(decimals)
	return math.Floor(v*scale*(1+1e-12)) / scale
}
