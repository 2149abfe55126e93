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
