package analysis

import "testing"

func TestBecauseSaysOnceWhatSeveralChannelsDo(t *testing.T) {
	for want, why := range map[string][]string{
		"":                          nil,
		"no log of node B is there": {"no log of node B is there"},
		"a/recv keeps only xoy x=1 y=2; b/recv keeps only first-last": {
			"a/recv keeps only xoy x=1 y=2", "b/recv keeps only first-last"},
		"a/recv, b/recv and c/recv keep only first-last; a/recv and d/recv dropped events; " +
			"the log of c/recv is not whole": {
			"a/recv keeps only first-last", "a/recv dropped events", "b/recv keeps only first-last",
			"c/recv keeps only first-last", "d/recv dropped events",
			"the log of c/recv is not whole"},
		"a, b, c and 2 others dropped events": {"a dropped events", "b dropped events",
			"c dropped events", "d dropped events", "e dropped events"},
	} {
		if got := (Completeness{Kept: Lossy, Why: why}).Because(); got != want {
			t.Errorf("%q: %q, want %q", why, got, want)
		}
	}
}
