package proof

import "testing"

func TestCoreNames(t *testing.T) {
	for want, core := range map[string]Core{
		"Emerald Rapids, family 6 model 207": {Intel, 6, 207},
		"Ice Lake, family 6 model 106":       {Intel, 6, 106},
		"Zen 2, family 23 model 49":          {AMD, 23, 49},
		"Zen 3, family 25 model 1":           {AMD, 25, 1},
		"Zen 4, family 25 model 17":          {AMD, 25, 17},
		"Zen 4, family 25 model 160":         {AMD, 25, 160},
		"Zen 5, family 26 model 2":           {AMD, 26, 2},
		"family 6 model 1":                   {Intel, 6, 1},
		"unknown design":                     {},
	} {
		if got := core.String(); got != want {
			t.Errorf("%#v: %q, want %q", core, got, want)
		}
	}
}
