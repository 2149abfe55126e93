package config

import "iter"

// suggest returns a hint that names the nearest name to a wrong one. It returns nothing if none is
// near.
func (f *File) suggest(wrong string, names iter.Seq[string]) string {
	if best := Nearest(wrong, names); best != "" {
		at := ""
		if line := f.Line(best); line > 0 {
			at = " of line " + itoa(line)
		}
		return "; the nearest key is " + quote(best) + at
	}
	return ""
}

// Nearest returns the name that differs least from a wrong one, or nothing if all differ in more
// than half of their letters. Of equally near names it returns the first.
func Nearest(wrong string, names iter.Seq[string]) (best string) {
	least := len(wrong)/2 + 1
	for name := range names {
		if name == wrong {
			continue
		}
		if d := distance(wrong, name, least); d < least {
			best, least = name, d
		}
	}
	return best
}

// distance returns how many letters must be changed, added, removed or swapped with their neighbour
// to turn a into b. The result is at most limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	older, old, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range old {
		old[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(old[j]+1, row[j-1]+1, old[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], older[j-2]+1)
			}
		}
		older, old, row = old, row, older
	}
	return min(old[len(b)], limit)
}
