package handlertable

import (
	"fmt"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// Rule gives a handler to the channels that both of its patterns match.
type Rule struct {
	Node     string // pattern for the node's name; "" matches all
	Channel  string // pattern for the channel's name
	Settings channel.Settings
	// Rate_hz limits the rows that are stored per second: see FORMAT.md. A row is a record or a
	// link pair. 0: no limit.
	Rate_hz uint64
}

// Table is a list of rules. The first rule that matches a channel applies to it. A channel that no
// rule matches keeps the settings that its program chose. The zero Table and a nil *Table have no
// rules. A Table does not change once it is in use, so any number of goroutines may use it.
type Table struct {
	Rules []Rule
}

// The size of a table is limited, because it may be received over a network.
const (
	maxRules        = 10_000
	maxPatternBytes = 256
	maxRate_hz      = 1 << 40 // more than any machine can log
	maxFileBytes    = 1 << 20
)

// For returns the rule for a channel on a node. ok is false if no rule matches the channel.
func (t *Table) For(node string, name channel.Name) (rule Rule, ok bool) {
	if i := t.findRule(node, name); i >= 0 {
		return t.Rules[i], true
	}
	return Rule{}, false
}

// findRule returns the index of the rule for a channel, or -1 if no rule matches.
func (t *Table) findRule(node string, name channel.Name) int {
	if t == nil {
		return -1
	}
	full := name.String()
	return slices.IndexFunc(t.Rules, func(r Rule) bool {
		return (r.Node == "" || channel.Match(r.Node, node)) && channel.MatchName(r.Channel, full)
	})
}

// Matched returns, for each rule, to how many of a node's channels the rule applies.
func (t *Table) Matched(node string, channels []channel.Name) []int {
	matched := make([]int, len(t.Rules))
	for _, name := range channels {
		if i := t.findRule(node, name); i >= 0 {
			matched[i]++
		}
	}
	return matched
}

// Validate returns nil if the table may be used. Errors wrap ErrTable and give the number of the
// rule. The first rule is number 1.
func (t *Table) Validate() error {
	if len(t.Rules) > maxRules {
		return fmt.Errorf("check handler table: %d rules, at most %d: join some with patterns: %w",
			len(t.Rules), maxRules, ErrTable)
	}
	for i, r := range t.Rules {
		if err := r.validate(); err != nil {
			return fmt.Errorf("check handler table: rule %d: %w: %w", i+1, err, ErrTable)
		}
	}
	return nil
}

func (r *Rule) validate() error {
	if r.Node != "" {
		if err := checkPattern("node", r.Node); err != nil {
			return err
		}
	}
	if err := checkPattern("channel", r.Channel); err != nil {
		return err
	}
	if err := channel.CheckPattern(r.Channel); err != nil {
		return err
	}
	if err := r.Settings.Validate(); err != nil {
		return err
	}
	switch r.Settings.Kind {
	case channel.Null, channel.Counter, channel.FirstLast:
		if r.Rate_hz > 0 {
			return fmt.Errorf("rate %d with handler %s, which keeps no single events: leave it out",
				r.Rate_hz, r.Settings.Kind)
		}
	}
	if r.Rate_hz > maxRate_hz {
		return fmt.Errorf("rate %d: at most %d a second: leave it out for all",
			r.Rate_hz, uint64(maxRate_hz))
	}
	return nil
}

func checkPattern(what, pattern string) error {
	switch {
	case pattern == "":
		return fmt.Errorf("%s is empty: write %q for all", what, "*")
	case len(pattern) > maxPatternBytes:
		return fmt.Errorf("%s %.40q…: %d bytes, at most %d", what, pattern, len(pattern),
			maxPatternBytes)
	case slices.ContainsFunc([]byte(pattern), func(b byte) bool { return b <= ' ' || b > '~' }):
		return fmt.Errorf("%s %q: use plain ASCII without spaces", what, pattern)
	}
	return nil
}
