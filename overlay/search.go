package overlay

import (
	"fmt"
	"slices"
)

// A Search is a walk that looks for a node with a fact that matches Pattern.
type Search struct {
	Origin    Name
	ID        uint64 // chosen by Origin
	Pattern   string
	Known     []Name // nodes with facts; meeting their hints shows how far hints spread
	Denied    []Name // nodes that do not have the fact any more
	Visited   int
	Meetings  int // hints of Known on the way
	Mix, Scan int
}

func (s Search) walk() (mix, scan int) { return s.Mix, s.Scan }

func (s Search) valid() bool {
	bad := func(name Name) bool { return !name.valid() }
	return s.Origin.valid() && len(s.Pattern) <= MaxFact && len(s.Known) <= MaxDegree+1 &&
		len(s.Denied) <= MaxDenied && s.Visited >= 0 && s.Meetings >= 0 &&
		!slices.ContainsFunc(s.Known, bad) && !slices.ContainsFunc(s.Denied, bad)
}

// A Verify asks a node whether one of its facts matches. It is a request. If one matches, the
// answer is a Confirm, and otherwise an Ack.
type Verify struct {
	ID      uint64
	Pattern string
}

// A Confirm answers the request ID, which is a Verify, with the sender's fact that matches.
type Confirm struct {
	ID   uint64
	Fact Fact
}

// A Found is a request. It ends a walk of the receiver. Search is the walk's id. Name is the node
// that the walk found, and empty if it found none.
type Found struct {
	ID, Search        uint64
	Name              Name
	Visited, Meetings int
}

// A search is a call of Search that has no result yet.
type search struct {
	Search
	rounds int // walks that remain
	until  Time
	done   func(Result)
}

// Search looks for a node with a fact that matches a pattern, as [Config].Match says. It calls the
// function done once, either before it returns or in a later call of Receive or Tick. The node in
// the result has confirmed the fact itself.
func (n *Node) Search(now Time, pattern string, done func(Result)) error {
	n.setTime(now)
	if len(pattern) > MaxFact {
		return fmt.Errorf("search for %q: need a pattern of at most %d bytes", pattern, MaxFact)
	}
	if len(n.searches) >= MaxSearches {
		return fmt.Errorf("search for %q: %d searches are open already", pattern, MaxSearches)
	}
	s := &search{rounds: SearchRounds, done: done}
	s.Origin, s.Pattern = n.self, pattern
	if len(n.facts) > 0 {
		s.Known = append(s.Known, n.self)
	}
	for _, h := range n.hints {
		if h.owner == h.via && h.expires > n.now && len(s.Known) <= MaxDegree {
			s.Known = append(s.Known, h.owner)
		}
	}
	n.searches = append(n.searches, s)
	n.searchOn(s)
	return nil
}

// searchOn starts the next walk of a search, or ends the search.
func (n *Node) searchOn(s *search) {
	if s.rounds == 0 || missedChance(len(s.Known), s.Meetings) <= SureMissed {
		n.endSearch(s, Result{Visited: s.Visited, Missed: missedChance(len(s.Known), s.Meetings)})
		return
	}
	s.rounds--
	s.ID, s.until = n.random.Uint64(), n.now+WalkLife
	n.wakeAt(s.until)
	walk := s.Search
	walk.Visited, walk.Meetings, walk.Scan = 0, 0, MaxScan
	n.lookForFact(walk)
}

func (n *Node) endSearch(s *search, r Result) {
	n.searches = without(n.searches, func(other *search) bool { return other == s })
	s.done(r)
}

func (n *Node) tickSearches() {
	for _, s := range slices.Clone(n.searches) {
		if s.until <= n.now {
			n.searchOn(s)
		}
	}
}

// lookForFact looks for a fact that matches, first among this node's own and then among its hints.
// It also counts how often the walk met hints of known nodes.
func (n *Node) lookForFact(s Search) {
	s.Visited++
	if s.Visited > WalkSteps { // a shorter walk is still near Origin, and so near Origin's hints
		for _, name := range s.Known {
			if n.holdsHint(name) {
				s.Meetings++
			}
		}
	}
	if n.matches(s.Pattern, n.facts) {
		n.reportWalk(s, n.self)
		return
	}
	n.visitHints(s)
}

// visitHints looks at the hints that match. It asks their owners, one after the other, whether they
// have a fact that matches. If no owner has one, the walk goes on to another node. But the walk
// ends here if it has no steps left, if it has seen enough, or if this node has no neighbour.
func (n *Node) visitHints(s Search) {
	for _, h := range n.hints {
		if h.expires <= n.now || slices.Contains(s.Denied, h.owner) ||
			!n.matches(s.Pattern, h.facts) || len(s.Denied) >= MaxDenied {
			continue
		}
		n.askToVerify(h.owner, s.Pattern, HopTries, afterHint{s, h.owner, h.via})
		return
	}
	enough := missedChance(len(s.Known), s.Meetings) <= SureMissed
	if s.Scan == 0 || enough || n.walkTo("") == "" {
		n.reportWalk(s, "")
		return
	}
	s.Scan--
	n.passWalk(s, "")
}

// afterHint is what this node does once the owner of a hint has answered.
type afterHint struct {
	s          Search
	owner, via Name
}

func (h afterHint) proceed(n *Node, _ bool) { h.confirm(n, "") }

func (h afterHint) confirm(n *Node, fact Fact) {
	if fact != "" {
		n.reportWalk(h.s, h.owner)
		return
	}
	n.hints = without(n.hints,
		func(other hint) bool { return other.owner == h.owner && other.via == h.via })
	h.s.Denied = append(slices.Clone(h.s.Denied), h.owner)
	n.visitHints(h.s)
}

// reportWalk tells the origin how its walk ended.
func (n *Node) reportWalk(s Search, found Name) {
	m := Found{ID: n.random.Uint64(), Search: s.ID, Name: found, Visited: s.Visited,
		Meetings: s.Meetings}
	if s.Origin == n.self {
		n.found(m)
		return
	}
	n.ask(s.Origin, m.ID, m, AskTries, nil)
}

func (n *Node) onFound(from Name, m Found) {
	if a, ok := n.isFresh(from, m.ID); ok {
		n.answer(a, true)
		n.found(m)
	}
}

func (n *Node) found(m Found) {
	i := slices.IndexFunc(n.searches, func(s *search) bool { return s.ID == m.Search })
	if i < 0 || m.Name != "" && !m.Name.valid() {
		return
	}
	s := n.searches[i]
	s.ID = n.random.Uint64() // this walk is over: another Found of it has no effect
	limit := MaxScan + 1
	s.Visited += min(max(0, m.Visited), limit)
	s.Meetings += min(max(0, m.Meetings), limit*len(s.Known))
	if m.Name == "" {
		n.searchOn(s)
		return
	}
	if m.Name == n.self { // a liar may name the node that searches
		if fact := n.matchingFact(s.Pattern, n.facts); fact != "" {
			n.endSearch(s, Result{Name: n.self, Fact: fact, Visited: s.Visited})
		} else {
			n.searchOn(s)
		}
		return
	}
	s.until = n.now + WalkLife
	n.askToVerify(m.Name, s.Pattern, AskTries, afterNamed{s, m.Name})
}

// If a walk of this node has found another node, this node asks that node for the fact. afterNamed
// is what this node does once the other node has answered.
type afterNamed struct {
	s    *search
	name Name
}

func (f afterNamed) proceed(n *Node, _ bool) { f.confirm(n, "") }

func (f afterNamed) confirm(n *Node, fact Fact) {
	switch {
	case !slices.Contains(n.searches, f.s):
	case fact != "":
		n.endSearch(f.s, Result{Name: f.name, Fact: fact, Visited: f.s.Visited})
	default:
		n.searchOn(f.s)
	}
}

// afterVerify is what a node does once a Verify that it sent was answered. If the answer is a
// Confirm with a matching fact, the method confirm is called. If the answer has no such fact, or if
// there is no answer, the method proceed is called.
type afterVerify interface {
	step
	confirm(n *Node, fact Fact)
}

// askToVerify asks a node for its fact that matches.
func (n *Node) askToVerify(to Name, pattern string, tries int, then afterVerify) {
	id := n.random.Uint64()
	n.ask(to, id, Verify{ID: id, Pattern: pattern}, tries, then)
}

// onConfirm takes a confirmation only if its fact matches the pattern that was asked for.
func (n *Node) onConfirm(from Name, m Confirm) {
	i := n.waitingRequest(from, m.ID)
	if i < 0 {
		return
	}
	r := n.asked[i]
	v, ok := r.m.(Verify)
	then, _ := r.then.(afterVerify)
	if ok && then != nil && n.matches(v.Pattern, []Fact{m.Fact}) {
		n.asked = slices.Delete(n.asked, i, i+1)
		then.confirm(n, m.Fact)
	}
}

// onVerify changes nothing, so a Verify that comes again does no harm.
func (n *Node) onVerify(from Name, m Verify) {
	if len(m.Pattern) <= MaxFact {
		if fact := n.matchingFact(m.Pattern, n.facts); fact != "" {
			n.send(from, Confirm{ID: m.ID, Fact: fact})
			return
		}
	}
	n.send(from, Ack{ID: m.ID})
}

func (Hint) message()    {}
func (Verify) message()  {}
func (Confirm) message() {}
func (Found) message()   {}
