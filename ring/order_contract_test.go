package ring

import "fmt"

// isWhole reports whether all parts of a copy have the value v. names are the words of the copy. If
// pread loaded the halves of a word separately, both halves must have the value.
func isWhole(regs func(string) int, v int, names ...string) bool {
	for _, name := range names {
		if regs(name) != v || regs(name+"'") != v && regs(name+"'") != unknownNumber {
			return false
		}
	}
	return true
}

// copyFault describes the fault in a copy that a reader accepted although some part of it is
// not v. It returns "" if there is no fault.
func copyFault(regs func(string) int, v int, names ...string) string {
	if isWhole(regs, v, names...) {
		return ""
	}
	text := fmt.Sprintf("a copy of %d has", v)
	for _, name := range names {
		text += fmt.Sprintf(" %s %d and %d", name, regs(name), regs(name+"'"))
	}
	return text
}

// ringExchanges contains the rules of FORMAT.md as programs for the machine in order_test.go. In
// these programs, each ring, table and journal has two places. Every part of record n has the value
// n, but with many writers the counter word has the value n + 1. Every part of range n and of entry
// n has the value n.
var ringExchanges = []exchange{
	{
		name:  "one writer, overwrite",
		start: map[string]int8{"c[1]": 1, "i[1]": 1, "tail": 2},
		threads: []string{
			`fence; store c[2] 2; store i[2] 2; publish tail 3
			fence; store c[3] 3; store i[3] 3; publish tail 4
			fence; store c[4] 4; store i[4] 4; publish tail 5
			fence; store c[5] 5; store i[5] 5; publish tail 6`,
			`look tail -> t; pread c[1] -> c; pread i[1] -> i; fence; look? tail -> again`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			if n := r("t") - 1; thread == 1 && n%2 == 1 && r("again")-1 <= n {
				return true, copyFault(r, n, "c", "i")
			}
			return false, ""
		},
	},
	{
		name:  "one writer, block or drop",
		start: map[string]int8{"c[1]": 1, "i[1]": 1, "tail": 2},
		threads: []string{
			`await head 2
			store c[2] 2; store i[2] 2; publish tail 3
			store c[3] 3; store i[3] 3; publish tail 4`,
			`await? tail 2
			pread c[1] -> c; pread i[1] -> i; publish head 2
			await tail 4
			pread c[3] -> C; pread i[3] -> I; publish head 4`,
			// This reader is not the drainer.
			`look head -> h; look tail -> t; look? head -> same
			pread c[1] -> c; pread i[1] -> i; fence; look? head -> again`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			switch n := r("t") - 1; {
			case thread == 1:
				return true, copyFault(r, 1, "c", "i") + copyFault(r, 3, "C", "I")
			case thread == 2 && (r("h") > r("t") || r("h") == r("same") && r("t") > r("h")+2):
				return true, fmt.Sprintf("head %d, tail %d", r("h"), r("t"))
			case thread == 2 && n%2 == 1 && n >= r("again"):
				return true, copyFault(r, n, "c", "i")
			}
			return false, ""
		},
	},
	{
		// A writer loads the head to see whether there is room, and then reserves a place. Because
		// of the reservation, none of the writer's later stores happens before this load, so the
		// writer needs no fence.
		name:  "many writers and the drainer",
		start: map[string]int8{"c[0]": 1, "i[0]": 0, "c[1]": 2, "i[1]": 1, "tail": 2},
		threads: []string{
			`await head 2; reserve? tail -> n; store i[n] n; publish c[n] n+1`,
			`await head 2; reserve? tail -> n; store i[n] n; publish c[n] n+1`,
			`pread c[0] -> c; pread i[0] -> i; publish head 2
			await? tail 4; mark c[2] 3; fence; pread c[2] -> C; pread i[2] -> I; publish? head 3`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			if thread == 2 {
				return true, copyFault(r, 0, "i") + copyFault(r, 1, "c") + copyFault(r, 2, "I") +
					copyFault(r, 3, "C")
			}
			return false, ""
		},
	},
	{
		name:  "many writers and another reader",
		start: map[string]int8{"i[0]": 9, "c[1]": 2, "i[1]": 1, "tail": 2},
		threads: []string{
			`store i[0] 0; publish c[0] 1`,
			`await head 1; reserve? tail -> n; store i[n] n; publish c[n] n+1`,
			`mark c[0] 1; fence; pread c[0] -> c; pread i[0] -> i; publish head 2
			await? tail 3; mark c[2] 3; fence; pread c[2] -> C; pread i[2] -> I; publish head 3`,
			`look head -> h; look tail -> t; pread c[0] -> c; fence
			pread c[0] -> C; pread i[0] -> I; fence; look? head -> again`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			if thread == 3 && r("h") > r("t") {
				return true, fmt.Sprintf("head %d, tail %d", r("h"), r("t"))
			}
			for n := 0; thread == 3 && n < r("t"); n += places {
				finished := lapOfWord(r("c")) == lapOfWord(n+1)
				if n >= r("again") && n >= r("h") && n+places >= r("t") && finished {
					return true, copyFault(r, n, "I") + copyFault(r, n+1, "C")
				}
			}
			if thread == 2 {
				return true, copyFault(r, 0, "i") + copyFault(r, 2, "I") + copyFault(r, 3, "C")
			}
			return false, ""
		},
	},
	{
		name:  "room that another of many writers found",
		start: map[string]int8{"c[0]": 1, "i[0]": 0, "c[1]": 2, "i[1]": 1, "tail": 2},
		threads: []string{
			`wait head 1; publish limit 3`,
			`await limit 3; reserve? tail -> n; store i[n] n; publish? c[n] n+1`,
			`await? tail 2; pread c[0] -> c; pread i[0] -> i; publish head 1`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			if thread == 2 {
				return true, copyFault(r, 0, "i") + copyFault(r, 1, "c")
			}
			return false, ""
		},
	},
	{
		name: "first and last",
		threads: []string{
			`fence; store first 1; store c[1] 1; store i[1] 1; publish count 1
			fence; store c[2] 2; store i[2] 2; publish count 2
			fence; store c[3] 3; store i[3] 3; publish count 3
			fence; store c[4] 4; store i[4] 4; publish count 4`,
			`look count -> n; load c[1] -> c; load i[1] -> i; fence; look? count -> again
			load first -> f`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			n := r("n")
			switch {
			case thread == 0 || n != r("again"):
				return false, ""
			case n > 0 && r("f") != 1:
				return true, "the first record is missing"
			case n%2 == 1:
				return true, copyFault(r, n, "c", "i")
			}
			return false, ""
		},
	},
	{
		name:  "full journal",
		start: map[string]int8{"word[1]": 1, "a[1]": 1, "b[1]": 1, "journal": 2},
		threads: []string{
			`store word[1] 0; fence; store a[1] 2; store b[1] 2; publish word[1] 2
			store word[1] 0; fence; store a[1] 3; store b[1] 3; publish word[1] 3`,
			`look word[1] -> w; load a[1] -> a; load b[1] -> b; fence; look? word[1] -> again`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			if w := r("w"); thread == 1 && w != 0 && w == r("again") {
				return true, copyFault(r, w, "a", "b")
			}
			return false, ""
		},
	},
	{
		name: "journal",
		start: map[string]int8{"word[0]": 10, "a[0]": 10, "b[0]": 10, "word[1]": 11, "a[1]": 11,
			"b[1]": 11, "journal": 2},
		threads: []string{
			`await taken 1
			store word[2] 0; fence?; store a[2] 12; store b[2] 12; publish? word[2] 12
			publish journal 3`,
			`look? word[0] -> w; load a[0] -> a; load b[0] -> b; publish taken 1
			await journal 3
			look? word[2] -> W; load a[2] -> A; load b[2] -> B; publish taken 3`,
			`look taken -> taken; look? journal -> n
			look? word[0] -> w; load a[0] -> a; load b[0] -> b; fence
			look? word[0] -> again; look? taken -> same`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			if thread == 1 {
				return true, copyFault(r, 10, "w", "a", "b") + copyFault(r, 12, "W", "A", "B")
			}
			if thread == 2 && r("taken") > r("n") {
				return true, fmt.Sprintf("%d entries, %d of them taken", r("n"), r("taken"))
			}
			if thread != 2 || r("w") != r("again") || r("taken") != r("same") {
				return false, ""
			}
			if r("taken") == 0 {
				return true, copyFault(r, 10, "w", "a", "b")
			}
			if r("taken") == 1 && r("n") == 3 {
				return true, copyFault(r, 12, "w", "a", "b")
			}
			return false, ""
		},
	},
	{
		name:  "drops",
		start: map[string]int8{"before[1]": 1, "last[1]": 1, "drops": 2, "dropped": 2},
		threads: []string{
			`await taken 1
			store before[2] 2; store last[2] 2; publish drops 3; publish dropped 3
			store last[2] 3; publish dropped 4
			await taken 2
			store before[3] 4; store last[3] 4; publish drops 4; publish dropped 5`,
			`load before[0] -> b; publish taken 1; load last[1] -> L; publish taken 2
			await drops 4
			load last[3] -> last; publish taken 4`,
			`look taken -> taken; look drops -> n
			load before[0] -> b; load last[0] -> l; load before[1] -> B; load last[1] -> L
			fence; look dropped -> d; look? drops -> m; look? taken -> same`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			n, taken := r("n"), r("taken")
			switch {
			case thread == 1:
				return true, copyFault(r, 0, "b") + copyFault(r, 1, "L") + copyFault(r, 4, "last")
			case thread == 2 && taken > n:
				return true, fmt.Sprintf("%d ranges, %d of them taken", n, taken)
			case thread != 2, taken != r("same"), n != r("m"):
				return false, ""
			case n-taken > places:
				return true, fmt.Sprintf("%d ranges, %d of them taken", n, taken)
			case r("d") > map[int]int{2: 2, 3: 4, 4: 5}[n]:
				return true, fmt.Sprintf("%d ranges, and %d events", n, r("d"))
			case n == 2 && taken == 0:
				return true, copyFault(r, 0, "b", "l") + copyFault(r, 1, "B", "L")
			case n == 2 && taken == 1:
				return true, copyFault(r, 1, "B", "L")
			case n == 3 && taken < 3 && (r("b") != 2 || r("l") < 2 || r("d") < 2):
				return true, fmt.Sprintf("range 2 has %d %d %d", r("b"), r("l"), r("d"))
			case n == 4 && taken < 3 && (r("d") < 4 || !isWhole(r, 2, "b") || !isWhole(r, 3, "l") ||
				!isWhole(r, 4, "B", "L")):
				return true, fmt.Sprintf("ranges 2 and 3 have %d %d, %d %d, %d", r("b"), r("l"),
					r("B"), r("L"), r("d"))
			}
			return true, ""
		},
	},
	{
		name:  "new settings",
		start: map[string]int8{"word": 1, "a[1]": 1, "b[1]": 1},
		threads: []string{
			`fence; store a[2] 2; store b[2] 2; publish word 2
			fence; store a[3] 3; store b[3] 3; publish word 3
			fence; store a[4] 4; store b[4] 4; publish word 4
			fence; store a[5] 5; store b[5] 5; publish word 5`,
			`look word -> w; load a[1] -> a; load b[1] -> b; fence; look? word -> again`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			if w := r("w"); thread == 1 && w%2 == 1 && w == r("again") {
				return true, copyFault(r, w, "a", "b")
			}
			return false, ""
		},
	},
	{
		name: "snapshot",
		threads: []string{
			`store c 1; store i 1; publish tail 1; publish asked 1`,
			`look asked -> asked; look tail -> t; pread c -> c; pread i -> i`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			switch {
			case thread == 1 && r("t") < r("asked"):
				return true, "a record before the request is missing"
			case thread == 1 && r("t") == 1:
				return true, copyFault(r, 1, "c", "i")
			}
			return false, ""
		},
	},
	{
		name: "death", // a dead program's lock ends: the kernel publishes that
		threads: []string{
			`store c 1; publish? tail 1; publish lock 1`,
			`wait lock 1; fence; look? tail -> t; pread c -> c`,
		},
		judge: func(thread int, r func(string) int) (bool, string) {
			switch {
			case thread == 1 && r("t") != 1:
				return true, "the last record is missing"
			case thread == 1:
				return true, copyFault(r, 1, "c")
			}
			return false, ""
		},
	},
}
