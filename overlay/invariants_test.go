package overlay

import (
	"fmt"
	"testing"
)

// invariants fails the test if a node keeps more than its limits allow, or keeps edges that cannot
// exist.
func (n *Node) invariants(t testing.TB) {
	t.Helper()
	var wrong []string
	most := func(what string, got, limit int) {
		if got > limit {
			wrong = append(wrong, fmt.Sprintf("%d %s, want at most %d", got, what, limit))
		}
	}
	most("outs", len(n.outs), n.degree)
	most("ins", len(n.ins), n.degree)
	most("seeks", len(n.seeks), n.degree+1)
	most("requests", len(n.asked), MaxAsked)
	most("answered requests", len(n.seen.all), MaxRecent)
	most("wants", len(n.wants), MaxWants)
	most("lost", len(n.lost), MaxLost)
	most("back", len(n.back), MaxLost)
	most("known", len(n.known.values), MaxKnown)
	most("budgets", len(n.budgets), 4*n.degree+1)
	most("hints", len(n.hints), n.degree*MaxHintsVia+1)
	most("searches", len(n.searches), MaxSearches)
	most("climbs", len(n.climbing), MaxSearches)
	most("items", len(n.items), MaxItems)
	most("items held or looked for", len(n.held)+n.takings, MaxHeld)
	for _, o := range n.outs {
		most("heats of "+string(o.peer), len(o.heatsAt(n.now)), MaxHeats)
	}
	most("blamed", len(n.blamed), MaxBlamed)
	most("failures", len(n.failures), MaxFailures)
	if n.offers < 0 {
		wrong = append(wrong, fmt.Sprintf("%d offers", n.offers))
	}
	seen := map[Name]bool{n.self: true}
	for _, o := range n.outs {
		if seen[o.peer] {
			wrong = append(wrong, fmt.Sprintf("a second edge to %q", o.peer))
		}
		seen[o.peer] = true
	}
	seen = map[Name]bool{n.self: true}
	for _, i := range n.ins {
		if seen[i.peer] {
			wrong = append(wrong, fmt.Sprintf("a second edge from %q", i.peer))
		}
		seen[i.peer] = true
	}
	for _, w := range wrong {
		t.Errorf("node %q: %s", n.self, w)
	}
}
