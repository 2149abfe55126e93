package proof

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A Record is the result of one run of all proofs on one machine.
type Record struct {
	Begun   time.Time
	Size    Size
	Commit  string
	Machine Machine
	Results []Result
	LeftOut int // number of proofs that the user did not select
}

// A Result is what one command reported.
type Result struct {
	Name    string
	Command string // the command line as a user would type it
	Took    time.Duration
	CPU     time.Duration // of the command and of the processes that it waited for
	Err     error         // why the command failed, perhaps because of a missed bar
	Bars    []Bar
	Text    string // the command's own text for the record, in Markdown
}

// Cost says how long the command took, and how much CPU time it used.
func (r Result) Cost() string {
	const digit = 100 * time.Millisecond
	return fmt.Sprintf("%s, %s of CPU time", r.Took.Round(digit), r.CPU.Round(digit))
}

// A Tally says how many bars have each verdict.
type Tally struct {
	Reached, Missed, Absent int
	Unjudged                int // missed or absent timings that this size of run does not judge
}

func (t Tally) String() string {
	text := fmt.Sprintf("%d reached, %d missed, %d absent", t.Reached, t.Missed, t.Absent)
	if t.Unjudged > 0 {
		text += fmt.Sprintf(", %d timings beyond their limits or absent, which only a "+
			"full run judges", t.Unjudged)
	}
	return text
}

// Count counts the verdicts. A command that failed without a missed bar, or reported no bar, is
// counted as a missed bar, because it proved nothing.
func (r Record) Count() Tally {
	var sum Tally
	for _, result := range r.Results {
		missed := 0
		for _, bar := range result.Bars {
			switch verdict := bar.Verdict(); {
			case verdict == Reached:
				sum.Reached++
			case !bar.Judged(r.Size):
				sum.Unjudged++
			case verdict == Missed:
				missed++
			default:
				sum.Absent++
			}
		}
		if missed == 0 && (result.Err != nil || len(result.Bars) == 0) {
			missed = 1
		}
		sum.Missed += missed
	}
	return sum
}

// Markdown returns the record as a Markdown page.
func (r Record) Markdown() string {
	var page strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&page, format+"\n", args...) }
	line("# Proofs of %s", r.Begun.UTC().Format(time.DateOnly))
	line("")
	line("%v. Size: %s. Begun %s.", r.Count(), r.Size, r.Begun.UTC().Format("2006-01-02 15:04 UTC"))
	if r.LeftOut > 0 {
		line("")
		line("%d proofs were not asked for.", r.LeftOut)
	}
	line("")
	line("| | |")
	line("|---|---|")
	line("| commit | %s |", r.Commit)
	line("| CPU | %s, %d cores |", cell(r.Machine.CPU), r.Machine.Cores)
	line("| system | %s, Linux %s |", cell(r.Machine.System), cell(r.Machine.Kernel))
	line("| Go | %s |", r.Machine.Go)
	line("")
	line("A figure is the median of the repetitions that counted. The spread gives " +
		"the smallest and the largest.")
	for _, result := range r.Results {
		line("")
		line("## %s", result.Name)
		line("")
		line("`%s`, %s", result.Command, result.Cost())
		line("")
		if result.Err != nil {
			line("The command failed: %s", result.Err)
			line("")
		}
		if result.Text != "" {
			line("%s", result.Text)
		}
		if len(result.Bars) == 0 {
			line("No bar was reported: nothing is proven.")
			continue
		}
		line("| bar | figure | limit | unit | spread | repetitions | |")
		line("|---|---|---|---|---|---|---|")
		for _, bar := range result.Bars {
			line("| %s |", strings.Join(bar.cells(), " | "))
		}
	}
	return page.String()
}

func (b Bar) cells() []string {
	figure, spread, reps, verdict := number(b.Figure), "", "", string(b.Verdict())
	if b.Reps > 0 {
		spread, reps = number(b.Spread[0])+" to "+number(b.Spread[1]), fmt.Sprint(b.Reps)
	}
	if b.Absent != "" {
		figure, spread, verdict = "", "", "absent: "+b.Absent
	}
	cells := []string{b.Name, figure, b.limit(), b.Unit, spread, reps, verdict}
	for i := range cells {
		cells[i] = cell(cells[i])
	}
	return cells
}

// cell escapes a text so that it does not break out of its table cell.
func cell(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "\n", " ", "\r", " ").Replace(text)
}

// Save writes the record into dir as DATE.md and returns the path. A later run on the same day
// becomes DATE-2.md. Save never overwrites a record, so that nobody can replace a bad record by a
// good one.
func (r Record) Save(dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("save record: %w", err)
	}
	date := r.Begun.UTC().Format(time.DateOnly)
	for n := 1; ; n++ {
		name := filepath.Join(dir, date+".md")
		if n > 1 {
			name = filepath.Join(dir, fmt.Sprintf("%s-%d.md", date, n))
		}
		file, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return "", fmt.Errorf("save record: %w", err)
		}
		if _, err := file.WriteString(r.Markdown()); err != nil {
			file.Close()
			return "", fmt.Errorf("save record: %w", err)
		}
		return name, file.Close()
	}
}
