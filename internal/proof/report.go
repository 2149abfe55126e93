package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// A Size is how much is measured. The limits do not depend on the size.
type Size string

const (
	None  Size = ""      // bars were not asked for
	Small Size = "small" // some seconds for each bar: make test
	Full  Size = "full"  // all that the bar requires: make prove
)

// Command prove passes these environment variables to the commands that it starts.
const (
	sizeVariable = "CLOUDPROFILER_PROOF"      // a Size
	fileVariable = "CLOUDPROFILER_PROOF_FILE" // where Report appends
)

// Wanted returns the size that was asked for.
func Wanted() (Size, error) {
	switch size := Size(os.Getenv(sizeVariable)); size {
	case None, Small, Full:
		return size, nil
	default:
		return None, fmt.Errorf("read %s: %q is neither %q nor %q", sizeVariable, size, Small, Full)
	}
}

// entry is one line of the file: a bar or a text.
type entry struct {
	*Bar
	Text string `json:"text,omitempty"`
}

// Report passes bars to the command that runs the proofs. If no such command runs, it does nothing.
func Report(bars ...Bar) error {
	if os.Getenv(fileVariable) == "" {
		return nil
	}
	var lines []entry
	for _, bar := range bars {
		if err := bar.validate(); err != nil {
			return fmt.Errorf("report: %w", err)
		}
		lines = append(lines, entry{Bar: &bar})
	}
	return report(lines)
}

// Describe passes on the Markdown text that the record has above the table of bars. If no command
// runs the proofs, it does nothing.
func Describe(markdown string) error { return report([]entry{{Text: markdown}}) }

func report(all []entry) error {
	name := os.Getenv(fileVariable)
	if name == "" {
		return nil
	}
	var lines bytes.Buffer
	for _, one := range all {
		if err := json.NewEncoder(&lines).Encode(one); err != nil {
			return fmt.Errorf("report: %w", err)
		}
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("report: %w", err)
	}
	if _, err := file.Write(lines.Bytes()); err != nil {
		file.Close()
		return fmt.Errorf("report: %w", err)
	}
	return file.Close()
}

// Read reads what Report and Describe wrote.
func Read(r io.Reader) (bars []Bar, text string, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		one := entry{Bar: &Bar{}}
		decoder := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&one); err != nil {
			return nil, "", fmt.Errorf("read bars: line %d: %w", n, err)
		}
		if _, err := decoder.Token(); err != io.EOF {
			return nil, "", fmt.Errorf("read bars: line %d: more than one object", n)
		}
		if one.Text != "" && *one.Bar != (Bar{}) {
			return nil, "", fmt.Errorf("read bars: line %d: a bar and a text", n)
		}
		if one.Text != "" {
			text += one.Text
			continue
		}
		if err := one.validate(); err != nil {
			return nil, "", fmt.Errorf("read bars: line %d: %w", n, err)
		}
		bars = append(bars, *one.Bar)
	}
	if err := lines.Err(); err != nil {
		return nil, "", fmt.Errorf("read bars: %w", err)
	}
	return bars, text, nil
}

// A T is a *testing.T. This package is linked into cprof, which must not link package testing.
type T interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
	Error(args ...any)
	Log(args ...any)
}

// Begin skips a test of bars unless bars were asked for. A plain "go test" shares the machine with
// other tests, and should time nothing.
func Begin(t T) Size {
	t.Helper()
	size, err := Wanted()
	if err != nil {
		t.Fatal(err)
	}
	if size == None {
		t.Skip("bars are measured by: make bars (small), make prove (full)")
	}
	return size
}

// Check reports bars, and fails the test for each missed bar that a run of this size judges. Absent
// bars are left to the command that runs the proofs.
func Check(t T, bars ...Bar) {
	t.Helper()
	size, err := Wanted()
	if err == nil {
		err = Report(bars...)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, bar := range bars {
		if bar.Verdict() == Missed && bar.Judged(size) {
			t.Error(bar)
		} else {
			t.Log(bar)
		}
	}
}
