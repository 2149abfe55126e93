package coordinator

// roundsOf returns all pairs of the numbers 0 to n−1, in rounds of disjoint pairs. If n is even,
// there are n−1 rounds. If n is odd, there are n rounds, and in each of them a different number has
// no partner.
//
// This is the circle method: one number stands still, the other numbers walk around it, and numbers
// that face each other form a pair.
func roundsOf(n int) [][][2]int {
	if n < 2 {
		return nil
	}
	m := n + n%2 // if n is odd, the number n stands for "no partner"
	rounds := make([][][2]int, 0, m-1)
	for r := range m - 1 {
		round := make([][2]int, 0, m/2)
		for i := range m / 2 {
			a, b := (r+i)%(m-1), (r+m-1-i)%(m-1)
			if i == 0 {
				b = m - 1
			}
			if a < n && b < n {
				round = append(round, [2]int{min(a, b), max(a, b)})
			}
		}
		rounds = append(rounds, round)
	}
	return rounds
}
