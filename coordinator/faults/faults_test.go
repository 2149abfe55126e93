package faults

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Faults are summed up by kind, and by reason as long as there are few reasons. The worst come
// first, whatever the order in which they are added.
func TestFaultsAreSummedUp(t *testing.T) {
	var l List
	gone := func(who, why string) {
		l.Add(Gone, who, why, fmt.Sprintf("node %s is gone: %s", who, why))
	}
	l.AddMany(NeverMeasured, 2000, "", "", "2000 more")
	for i := range 40 {
		l.Add(NeverMeasured, fmt.Sprintf("p%d", i), "never", fmt.Sprintf("p%d: never", i))
	}
	gone("a", "left")
	for i := range 7 {
		gone(fmt.Sprintf("b%d", i), "silent")
	}
	l.Add(Noisy, "x", "busy", "x is busy")
	l.Add(Contradicts, "liar", "", "liar is wrong")
	want := []string{
		"liar is wrong",
		"7 nodes are gone (silent): b0, b1, b2, b3, b4, b5, b6",
		"node a is gone: left",
		"2040 pairs were never measured: p0, p1, p2, p3, p4, p5, p6, p7, …",
		"x is busy",
	}
	if got := l.Summary(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	sentences := l.Sentences()
	if len(sentences) != 51 || sentences[0] != "liar is wrong" || sentences[1] !=
		"node a is gone: left" || sentences[50] != "x is busy" {
		t.Errorf("%d sentences: %q", len(sentences), sentences)
	}
	gone("c", "closed")
	gone("d", "revoked")
	if got := l.Summary(); len(got) != 4 || got[1] !=
		"10 nodes are gone (silent; and 3 other reasons): a, b0, b1, b2, b3, b4, b5, b6, …" {
		t.Errorf("with four reasons: %q", got)
	}
}

// Reasons that differ only in names and numbers are one reason, if there are many.
func TestReasonsThatDifferInNames(t *testing.T) {
	var l List
	for i := range 834 {
		why := fmt.Sprintf(`not tried: trains between "n%d" and others failed`, i)
		if i < 100 {
			why = fmt.Sprintf(`node "n%d": trains with "n%d": no answer in %d.5s`, i, i+1, i)
		}
		l.Add(Unswept, fmt.Sprintf("a%d with b", i), why, "")
	}
	want := []string{
		"734 pairs were not measured by the last sweep (not tried: trains between … and others " +
			"failed): a100 with b, a101 with b, a102 with b, a103 with b, " +
			"a104 with b, …",
		"100 pairs were not measured by the last sweep (node …: trains with …: no answer in …s): " +
			"a0 with b, a1 with b, a2 with b, a3 with b, a4 with b, a5 with b, …",
	}
	if got := l.Summary(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// For every kind, the summary of several faults says how many they are.
func TestEveryKindCounts(t *testing.T) {
	for kind := range Noisy + 1 {
		var l List
		l.Add(kind, "a", "why", "one")
		if got := l.Summary(); !slices.Equal(got, []string{"one"}) {
			t.Errorf("kind %d: one fault is %q", kind, got)
		}
		l.Add(kind, "b", "why", "two")
		got := l.Summary()
		if len(got) != 1 || !strings.Contains(got[0], "2 ") ||
			!strings.HasSuffix(got[0], ": a, b") ||
			strings.Contains(got[0], "%!") || strings.Contains(got[0], "why") !=
			kinds[kind].reasons {
			t.Errorf("kind %d: two faults are %q", kind, got)
		}
	}
	var l List
	for _, name := range []string{"a", "b", "c"} {
		l.Add(Gone, strings.Repeat(name, 29), "silent", "")
	}
	want := "3 nodes are gone (silent): " + strings.Repeat("a", 29) + ", " +
		strings.Repeat("b", 29) + ", …"
	if got := l.Summary(); !slices.Equal(got, []string{want}) {
		t.Errorf("long names: %q, want %q", got, want)
	}
	if got := (&List{}).Summary(); got == nil || len(got) > 0 {
		t.Errorf("no fault: %q", got)
	}
}
