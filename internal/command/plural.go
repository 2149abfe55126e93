package command

import (
	"fmt"
	"strings"
)

// Plural counts things: "1 pair", "2 pairs", "2 pairs of claims".
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %s", n, PluralOf(what))
}

// PluralOf returns the plural of a word, or the plural of a phrase: "pairs of claims" for "pair of
// claims".
func PluralOf(what string) string {
	first, rest, found := strings.Cut(what, " of ")
	if !found {
		return what + "s"
	}
	return first + "s of " + rest
}
