package channel

import (
	"fmt"
	"strings"
)

// MatchName reports whether a pattern matches a channel's name. If the pattern has no '#', the
// instance is removed from the name first: instances are copies of one operator, and such a pattern
// means all of them.
func MatchName(pattern, name string) bool {
	if operator, rest, found := strings.Cut(name, "#"); found && !strings.Contains(pattern, "#") {
		_, point, _ := strings.Cut(rest, "/")
		name = operator + "/" + point
	}
	return Match(pattern, name)
}

// MatchFact reports whether a pattern matches a fact that a node says about itself, such as
// "role=worker". Facts that begin with FactChannel name channels: MatchName compares them.
func MatchFact(pattern, fact string) bool {
	if strings.HasPrefix(fact, FactChannel) {
		return MatchName(pattern, fact)
	}
	return Match(pattern, fact)
}

// FactChannel is the beginning of a fact that names a channel that a program has open.
const FactChannel = "channel="

// CheckPattern returns an error if a pattern contains a character that no channel's name can
// contain. Such a pattern matches no channel.
func CheckPattern(pattern string) error {
	if i := strings.IndexFunc(pattern, notInPattern); i >= 0 {
		return fmt.Errorf("channel %q: no channel's name has %q: use letters, digits, '-', '_', "+
			"'.', '#', '/' and the wildcards * and ?", pattern, pattern[i:i+1])
	}
	return nil
}

func notInPattern(r rune) bool {
	return notInWord(r) && !strings.ContainsRune("#/*?", r)
}

// Match reports whether a text matches a pattern. In the pattern * matches any sequence of bytes,
// and ? matches any one byte.
func Match(pattern, text string) bool {
	// If the text does not match the pattern after the last * so far, let that * match one byte
	// more. An earlier * never needs to match more. So the number of steps is at most the product
	// of the two lengths.
	star, resume := -1, 0
	p, t := 0, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			resume++
			p, t = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
