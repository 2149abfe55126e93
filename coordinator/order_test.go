package coordinator

import "testing"

func TestRoundsHoldEveryPairOnceAndNobodyTwice(t *testing.T) {
	for n := range 130 {
		rounds := roundsOf(n)
		want := n - 1 + n%2
		if n < 2 {
			want = 0
		}
		if len(rounds) != want {
			t.Fatalf("%d nodes: %d rounds, want %d", n, len(rounds), want)
		}
		seen := map[[2]int]bool{}
		for r, round := range rounds {
			if len(round) != n/2 {
				t.Fatalf("%d nodes: round %d has %d pairs, want %d", n, r, len(round), n/2)
			}
			busy := map[int]bool{}
			for _, p := range round {
				if p[0] >= p[1] || p[0] < 0 || p[1] >= n {
					t.Fatalf("%d nodes: round %d has pair %v", n, r, p)
				}
				if busy[p[0]] || busy[p[1]] {
					t.Fatalf("%d nodes: round %d has a node of %v twice", n, r, p)
				}
				if seen[p] {
					t.Fatalf("%d nodes: pair %v comes twice", n, p)
				}
				busy[p[0]], busy[p[1]], seen[p] = true, true, true
			}
		}
		if len(seen) != n*(n-1)/2 {
			t.Fatalf("%d nodes: %d pairs, want %d", n, len(seen), n*(n-1)/2)
		}
	}
}
