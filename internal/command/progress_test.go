package command

import (
	"strings"
	"testing"
)

// The line shows how much is done and what the program is doing. It changes at most ten times a
// second, and is gone at the end.
func TestProgress(t *testing.T) {
	var out strings.Builder
	line := &Progress{w: &out}
	show := line.Share()
	show(0.5, "reading logs")
	show(0.75, "joining tuples") // too soon to be shown
	want := "\rreading logs    [===============               ]  50 %"
	if out.String() != want {
		t.Errorf("shown %q, want %q", out.String(), want)
	}
	line.Share()(1, "done")
	want += "\rdone            [==============================] 100 %"
	if out.String() != want {
		t.Errorf("shown %q, want %q", out.String(), want)
	}
	line.Done()
	if want += "\r" + strings.Repeat(" ", 54) + "\r"; out.String() != want {
		t.Errorf("at the end %q, want %q", out.String(), want)
	}
	if NewProgress(&out).w != nil { // a file should contain only results
		t.Error("progress is shown where there is no terminal")
	}
}
