package faults

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Kind is a kind of fault. The kinds are in the order in which people should look at them: first
// the kinds that make bounds wrong, then the kinds that stay until somebody acts, and finally the
// kinds that only make bounds wider.
type Kind int

// These are the kinds. Each comment says what has such a fault.
const (
	Contradicts   Kind = iota // a node whose stamps are wrong
	Disagrees                 // a node that is on every path that disagrees with another path
	OneOfTwo                  // two nodes, one of which is on every such path
	NotClosed                 // the fleet
	Contradiction             // two paths
	Gone                      // a node
	NoTable                   // a node that does not apply the handler table
	RuleBreaker               // a node that breaks the rules of the graph
	Lonely                    // a node without neighbours in the graph
	Suspect                   // a pair
	Unrelated                 // a pair that has trains, but no bound or a complaint
	NeverMeasured             // a pair
	NotYet                    // a pair that the sweep under way has not measured yet
	Unswept                   // a pair that the last sweep did not measure
	Dropped                   // a node that had to drop reports
	Noisy                     // a node that was not quiet during the last sweep
)

// kinds has, for each kind, the sentence that sums up several faults of this kind. If reasons is
// true, each reason has such a sentence of its own, as long as there are few reasons.
var kinds = [...]struct {
	many    string
	reasons bool
}{
	Contradicts: {"%d nodes contradict nodes that have nothing else in common: their counters or " +
		"their stamps are wrong", false},
	Disagrees:     {"every path that disagrees with another leads over one of %d nodes", false},
	OneOfTwo:      {"one of each of %d groups of two nodes is wrong", false},
	NotClosed:     {"the fleet cannot be closed over, for %d reasons", true},
	Contradiction: {"%d paths disagree with other paths", false},
	Gone:          {"%d nodes are gone", true},
	NoTable:       {"%d nodes do not apply the handler table", true},
	RuleBreaker:   {"%d nodes break the rules of the graph, as other nodes say", false},
	Lonely:        {"%d nodes have no neighbours in the graph, and measure nobody", false},
	Suspect:       {"%d pairs are suspect: the data need more wander than is declared", false},
	Unrelated:     {"%d pairs have a fault", true},
	NeverMeasured: {"%d pairs were never measured", false},
	NotYet:        {"%d pairs are not measured yet: a sweep is under way", false},
	Unswept:       {"%d pairs were not measured by the last sweep", true},
	Dropped:       {"%d nodes had to drop reports of trains", false},
	Noisy:         {"%d nodes were not quiet during the last sweep", true},
}

// List is a list of faults. The zero List is empty.
type List struct{ all []fault }

type fault struct {
	kind          Kind
	count         int
	who, why, one string
}

// Add adds a fault. Its parameters are the kind, the node or the pair that has the fault (such as
// "alpha" or "alpha with beta"), the reason (which may be ""), and a sentence. The sentence says
// all about this one fault.
func (l *List) Add(k Kind, who, why, sentence string) { l.AddMany(k, 1, who, why, sentence) }

// AddMany adds several faults of a kind, described by one sentence. The text in who need not name
// everything that has these faults.
func (l *List) AddMany(k Kind, count int, who, why, sentence string) {
	l.all = append(l.all, fault{k, count, who, why, sentence})
}

// Sentences returns the sentences of all faults, the worst first.
func (l *List) Sentences() []string {
	sentences := []string{}
	for _, f := range l.sorted() {
		sentences = append(sentences, f.one)
	}
	return sentences
}

func (l *List) sorted() []fault {
	sorted := slices.Clone(l.all)
	slices.SortStableFunc(sorted, func(x, y fault) int { return cmp.Compare(x.kind, y.kind) })
	return sorted
}

// maxReasons is the largest number of reasons for which faults of one kind are summed up in
// separate lines.
const maxReasons = 3

// Summary returns the worst faults first, with one line for all faults of a kind and reason. If
// faults of a kind have more than maxReasons reasons, reasons that differ only in names and numbers
// count as one. If there are still too many, the faults share one line.
func (l *List) Summary() []string {
	lines := []string{}
	sorted := l.sorted()
	for len(sorted) > 0 {
		kind := sorted[0].kind
		end := slices.IndexFunc(sorted, func(f fault) bool { return f.kind != kind })
		if end < 0 {
			end = len(sorted)
		}
		lines = append(lines, summary(kind, sorted[:end])...)
		sorted = sorted[end:]
	}
	return lines
}

func summary(kind Kind, all []fault) (lines []string) {
	if !kinds[kind].reasons {
		return []string{line(kind, all, "")}
	}
	reasons, by := byReason(all, func(why string) string { return why })
	if len(reasons) > maxReasons {
		reasons, by = byReason(all, withoutNames)
	}
	if n := len(reasons) - 1; n >= maxReasons {
		return []string{line(kind, all, fmt.Sprintf("%s; and %d other reasons", reasons[0], n))}
	}
	for _, why := range reasons {
		lines = append(lines, line(kind, by[why], why))
	}
	return lines
}

// byReason rewrites the reason of each fault with the function words, and groups the faults by the
// results. The most frequent reason comes first.
func byReason(all []fault, words func(why string) string) (reasons []string,
	by map[string][]fault) {
	by = map[string][]fault{}
	for _, f := range all {
		why := words(f.why)
		if by[why] == nil {
			reasons = append(reasons, why)
		}
		by[why] = append(by[why], f)
	}
	slices.SortStableFunc(reasons, func(x, y string) int { return len(by[y]) - len(by[x]) })
	return reasons, by
}

var nameOrNumber = regexp.MustCompile(`"[^"]*"|[0-9]+([.][0-9]+)?`)

// withoutNames replaces all names in quotes, and all numbers.
func withoutNames(why string) string { return nameOrNumber.ReplaceAllString(why, "…") }

// A line has at most maxNames names. Names after the first are added only while all names together
// have at most maxNamesBytes bytes.
const (
	maxNames      = 8
	maxNamesBytes = 60
)

// line describes faults that have a reason in common.
func line(kind Kind, all []fault, why string) string {
	if len(all) == 1 {
		return all[0].one
	}
	count, bytes := 0, 0
	var names []string
	for _, f := range all {
		count += f.count
		bytes += len(f.who)
		if f.who != "" &&
			(len(names) == 0 || len(names) < maxNames && bytes <= maxNamesBytes) {
			names = append(names, f.who)
		}
	}
	text := fmt.Sprintf(kinds[kind].many, count)
	if why != "" {
		text += " (" + why + ")"
	}
	if len(names) > 0 {
		if len(names) < count {
			names = append(names, "…")
		}
		text += ": " + strings.Join(names, ", ")
	}
	return text
}
