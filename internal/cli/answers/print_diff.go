package answers

import (
	"fmt"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/cloudprofiler/cloudprofiler/analysis"
)

// printChanges prints two lines or more for each span: its name, and a row for each percentile.
func printChanges(out io.Writer, sides [2][]*analysis.Answer, changes []analysis.Change) error {
	var text strings.Builder
	for i, when := range []string{"before:", "after:"} {
		for _, a := range sides[i] {
			printFolded(&text, fmt.Sprintf("%-8s", when), 8, fmt.Sprintf("run %s, %d tuples, by "+
				"the cycles of %s: %s", a.Run, a.Work.Tuples, a.Reference.Node,
				a.Reference.SecondsMean()))
			when = ""
		}
	}
	cells := [][4]string{{"", "before", "after", "noise"}}
	for i := range changes {
		cells = append(cells, changeCells(&changes[i]))
	}
	var width [4]int
	for _, row := range cells {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	row := func(cells [4]string, rest string) {
		line := " "
		for i, cell := range cells {
			line += fmt.Sprintf(" %*s", width[i]+min(i, 1), cell)
		}
		printFolded(&text, line+"  ", 10, rest)
	}
	fmt.Fprintln(&text, "\nfrom → to")
	row(cells[0], "verdict")
	title := ""
	for i := range changes {
		c := &changes[i]
		name := c.From + " → " + c.To
		if c.Kind != "" {
			name += ", " + c.Kind
		}
		if c.Origin != "" {
			name += ", " + c.Origin + " origin"
		}
		if name != title {
			printFolded(&text, "", 4, name)
			title = name
		}
		row(cells[i+1], changeText(c))
	}
	if len(sides[0]) == 1 && len(sides[1]) == 1 {
		fmt.Fprintln(&text)
		printFolded(&text, "", 0, "one run on each side does not show how much runs differ by "+
			"themselves: compare several, as \"cprof diff a,b,c d,e,f\"")
	}
	_, err := io.WriteString(out, text.String())
	return err
}

// changeCells returns the texts of a change: its percentile, its two sides and the noise.
func changeCells(c *analysis.Change) (cells [4]string) {
	if c.Percent == 0 { // the whole span is gone or new
		return cells
	}
	cells[0] = fmt.Sprintf("p%v", c.Percent)
	between := func(lo_ns, hi_ns float64) string {
		if math.IsNaN(lo_ns) {
			return "-"
		}
		return analysis.SecondsBetween(lo_ns, hi_ns)
	}
	cells[1] = between(c.BeforeLo_ns, c.BeforeHi_ns)
	cells[2] = between(c.AfterLo_ns, c.AfterHi_ns)
	if cells[3] = "-"; !math.IsInf(c.Noise_ns, 1) {
		cells[3] = roundedUp(c.Noise_ns, cells[1]+" "+cells[2])
	}
	return cells
}

// roundedUp returns a duration as text, rounded up. The parameter beside is the text next to the
// duration. The unit is the largest one of s, ms and µs that occurs in that text, or ns if none
// does.
func roundedUp(ns float64, beside string) string {
	units := []struct {
		name string
		ns   float64
	}{{" s", 1e9}, {" ms", 1e6}, {" µs", 1e3}}
	for _, u := range units {
		if strings.Contains(beside+" ", u.name+" ") {
			return fmt.Sprintf("%.3f%s", math.Ceil(ns/u.ns*1000)/1000, u.name)
		}
	}
	return fmt.Sprintf("%.0f ns", math.Ceil(ns))
}

// changeText returns the verdict of a change, and what a reader needs to know about the change.
func changeText(c *analysis.Change) string {
	words := string(c.Verdict)
	if c.Verdict == analysis.Same {
		words = "same, within the noise"
	}
	if c.Suspect {
		words += ", suspect"
	}
	switch n := c.Needs; {
	case c.Why != "":
		words += ": " + c.Why
	case n == nil:
	case n.Bounds:
		words += ", needs narrower intervals"
	case n.Runs > 0:
		words += fmt.Sprintf(", needs %.0f runs on each side", n.Runs)
	default:
		words += fmt.Sprintf(", needs %.0f times as many tuples", n.Tuples)
	}
	return words
}

// printFolded prints a text after the beginning of a line, and breaks the text at spaces where the
// screen ends. The lines that follow are indented. A word that is longer than a line continues on
// the next line.
func printFolded(out io.Writer, begin string, indent int, text string) {
	line, empty := begin, true
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > screenWidth {
			fmt.Fprintln(out, line)
			line, empty = strings.Repeat(" ", indent), true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
		for utf8.RuneCountInString(line) > screenWidth {
			all := []rune(line)
			fmt.Fprintln(out, string(all[:screenWidth]))
			line = strings.Repeat(" ", indent) + string(all[screenWidth:])
		}
	}
	fmt.Fprintln(out, strings.TrimRight(line, " "))
}
