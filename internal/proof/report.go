package proof

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
)

// A Size says how much a run measures. The limits of bars do not depend on the size.
type Size string

const (
	None  Size = ""      // bars are not measured
	Small Size = "small" // some seconds for each bar: make test
	Full  Size = "full"  // everything that the bar requires: make prove
)

// The command prove sets these environment variables for the commands that it starts.
const (
	sizeVariable = "CLOUDPROFILER_PROOF"      // the Size
	fileVariable = "CLOUDPROFILER_PROOF_FILE" // the file to which Report appends
)

// Wanted returns the size that the environment demands.
func Wanted() (Size, error) {
	switch size := Size(os.Getenv(sizeVariable)); size {
	case None, Small, Full:
		return size, nil
	default:
		return None, fmt.Errorf("read %s: %q is neither %q nor %q", sizeVariable, size, Small, Full)
	}
}

// WantsFull reports whether tests must run at full size.
func WantsFull() bool {
	size, err := Wanted()
	return err == nil && size == Full
}

// entry is one line of the file that Report writes: a bar or a text.
type entry struct {
	*Bar
	Text string `json:"text,omitempty"`
}

// Report passes bars to the command prove. If prove has not started this program, Report does
// nothing.
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

// Describe passes a Markdown text to the command prove, for the part of the record above the table
// of bars. If prove has not started this program, Describe does nothing.
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

// Read reads the file that Report and Describe wrote.
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

// T has the methods of *testing.T that this package needs. The programs cp-bench and cprof-demo
// contain this package, but must not contain package testing.
type T interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
	Error(args ...any)
	Log(args ...any)
}

// Begin skips a test of bars unless the environment demands a size. During a plain "go test", other
// tests run on the machine at the same time, so timings would be worthless.
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

// Check reports bars. Check fails the test if a bar is missed, unless it is a timing and the run is
// not a full one. If a bar has no figure, the command prove decides what that means.
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
