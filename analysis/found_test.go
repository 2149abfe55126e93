package analysis

import "testing"

// An operator that drops the same share of tuples all the time filters them. Bursts, and a few
// tuples now and then, are losses.
func TestFiltersOrLoses(t *testing.T) {
	for name, test := range map[string]struct {
		passed, ended []uint64
		want          bool
	}{
		"two of three":            {[]uint64{300, 300, 300}, []uint64{200, 190, 205}, true},
		"one in twenty":           {[]uint64{1000, 1000, 1000}, []uint64{50, 50, 50}, true},
		"fewer":                   {[]uint64{1000, 1000, 1000}, []uint64{49, 50, 50}, false},
		"a burst":                 {[]uint64{300, 300, 300, 300}, []uint64{0, 300, 0, 0}, false},
		"none at the end":         {[]uint64{300, 300, 300, 300}, []uint64{100, 100, 100}, false},
		"more than twice as many": {[]uint64{300, 300, 300, 300}, []uint64{30, 30, 30, 150}, false},
		"too short to tell":       {[]uint64{300, 300, 99}, []uint64{100, 100, 33}, false},
		"few at the ends":         {[]uint64{5, 300, 300, 300}, []uint64{0, 100, 100, 100}, true},
		"nothing passed":          {nil, nil, false},
	} {
		var f pointFound
		for bin, n := range test.ended {
			f.endedIn(bin, n)
		}
		if got := f.filters(test.passed); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}
