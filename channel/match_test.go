package channel

import (
	"regexp"
	"strings"
	"testing"
)

// A pattern means the same in a handler table and in a flag.
func TestMatchName(t *testing.T) {
	for _, test := range []struct {
		pattern, name string
		want          bool
	}{
		{"parser/start", "parser#7/start", true},
		{"parser/start", "parser/start", true},
		{"parser#7/start", "parser#7/start", true},
		{"parser#7/start", "parser#70/start", false},
		{"parser#*/start", "parser/start", false},
		{"parser#*/start", "parser#7/start", true},
		{"parser*", "parser#7/start", true},
		{"*start", "parser#7/start", true},
		{"*", "parser/start", true},
		{"parser", "parser/start", false},
		{"pars?r/st*", "parser#7/start", true},
	} {
		if got := MatchName(test.pattern, test.name); got != test.want {
			t.Errorf("MatchName(%q, %q) = %v", test.pattern, test.name, got)
		}
	}
	for pattern, good := range map[string]bool{
		"a-b_c.d#7/e*?": true, "a[bc]": false, "a b": false, `a\*`: false, "": true,
	} {
		if err := CheckPattern(pattern); (err == nil) != good {
			t.Errorf("CheckPattern(%q) = %v", pattern, err)
		}
	}
}

// In facts that name channels, a pattern means the same as in a handler table.
func TestMatchFact(t *testing.T) {
	for _, test := range []struct {
		pattern, fact string
		want          bool
	}{
		{"channel=parser/start", "channel=parser#7/start", true},
		{"channel=parser*", "channel=parser#7/start", true},
		{"channel=parser#8/*", "channel=parser#7/start", false},
		{"*/start", "channel=parser/start", true},
		{"role=worker", "role=worker#7/", false},
		{"role=worker#7", "role=worker#7", true},
		{"role=w*", "role=worker/a", true},
		{"kernel=6.?.*", "kernel=6.1.0-44", true},
	} {
		if got := MatchFact(test.pattern, test.fact); got != test.want {
			t.Errorf("MatchFact(%q, %q) = %v", test.pattern, test.fact, got)
		}
	}
}

// Match agrees with a second implementation, which uses a regular expression.
func TestMatch(t *testing.T) {
	const alphabet = "ab*?"
	words := []string{""}
	for i := 0; i < len(words) && len(words[i]) < 5; i++ {
		for _, c := range alphabet {
			words = append(words, words[i]+string(c))
		}
	}
	for _, pattern := range words {
		expression := strings.NewReplacer("*", ".*", "?", ".").Replace(pattern)
		re := regexp.MustCompile("^" + expression + "$")
		for _, text := range words {
			if strings.ContainsAny(text, "*?") || len(text) > 4 {
				continue
			}
			if got, want := Match(pattern, text), re.MatchString(text); got != want {
				t.Fatalf("Match(%q, %q) = %v", pattern, text, got)
			}
		}
	}
}

func TestMatchOfAHostilePatternIsQuick(t *testing.T) {
	// A matcher that tries all lengths for every * would need 10^70 steps.
	if Match(strings.Repeat("a*", 128)+"b", strings.Repeat("a", 10_000)) {
		t.Error("it matches")
	}
}
