package coordinator

// roundsOf returns all pairs of the numbers from 0 to n−1 in rounds of disjoint pairs: n−1 rounds if n is even, n if it is odd, and then one
// number sits out each round.
//
// It is the circle method: one number stands still, the others walk around it, and whoever face each other are a pair.
func roundsOf(n int) [][][2]int {
	if n < 2 {
		return nil
	}
	m := n + n%2 // with an odd n, number n is nobody
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
