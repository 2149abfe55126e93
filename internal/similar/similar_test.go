package similar

import (
	"slices"
	"testing"
)

func TestWord(t *testing.T) {
	known := slices.Values([]string{"budget", "degree", "runs", "run", "listen", "a",
		"AverageED", "AverageFunction"})
	for wrong, want := range map[string]string{
		"buget": "budget", "bduget": "budget", "budgets": "budget", "badget": "budget",
		"rusn": "runs", "ruin": "run", "degre": "degree", "listne": "listen",
		"averageed": "AverageED", "": "", "b": "", "quiet": "", "eergde": "degree", "xxxxee": "",
	} {
		if got := Word(wrong, known); got != want {
			t.Errorf("%q is said to be %q, want %q", wrong, got, want)
		}
	}
	if got := Word("run", known); got != "runs" {
		t.Errorf("a word is similar to itself: %q", got)
	}
}
