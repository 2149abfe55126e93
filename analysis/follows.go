package analysis

// Follows returns the pairs of points between which tuples go, each as actor/point.
func (a *Answer) Follows() (pairs [][2]string) {
	for _, s := range a.Spans {
		if s.Origin == "" && s.Kind != "end-to-end" {
			pairs = append(pairs, [2]string{s.From, s.To})
		}
	}
	return pairs
}

// Backwards counts, on the spans of Follows, the tuples that surely were at the second point before
// they were at the first, and names some of them. An assumption behind the bounds is broken then.
func (a *Answer) Backwards() (n uint64, named []string) {
	for _, s := range a.Spans {
		if s.Origin == "" && s.Kind != "end-to-end" {
			n += s.All.After
		}
	}
	for _, f := range a.Findings {
		if n > 0 && f.Kind == FindImpossible {
			named = append(named, f.Text)
		}
	}
	return n, named
}
