package similar

import "iter"

// Word returns the known word that differs least from a wrong one, or nothing if all differ in more
// than half of the wrong word's letters. Of equally similar words it returns the first.
func Word(wrong string, known iter.Seq[string]) (best string) {
	least := len(wrong)/2 + 1
	for word := range known {
		if word == wrong {
			continue
		}
		if d := distance(wrong, word, least); d < least {
			best, least = word, d
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
