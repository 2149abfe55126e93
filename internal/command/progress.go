package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Progress rewrites one line on a terminal. If the output is not a terminal, it prints nothing,
// because logs should contain only results.
type Progress struct {
	w     io.Writer
	shown int
}

// NewProgress returns a Progress. It writes to w if w is a terminal.
func NewProgress(w io.Writer) *Progress {
	file, ok := FileOf(w)
	if !ok {
		return &Progress{}
	}
	if _, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS); err != nil {
		return &Progress{}
	}
	// Write directly to the file. A plainWriter would change the control characters that move the
	// cursor back to the beginning of the line.
	return &Progress{w: file}
}

// Shows reports whether the output is a terminal.
func (p *Progress) Shows() bool { return p.w != nil }

// Show replaces the line.
func (p *Progress) Show(format string, args ...any) {
	if p.w == nil {
		return
	}
	text := Line(fmt.Sprintf(format, args...))
	fmt.Fprintf(p.w, "\r%s%s", text, strings.Repeat(" ", max(0, p.shown-len(text))))
	p.shown = len(text)
}

// Done removes the line.
func (p *Progress) Done() {
	p.Show("")
	if p.w != nil {
		fmt.Fprint(p.w, "\r")
	}
}

// Share returns a function that shows which share of the work is done, from 0 to 1, and what the
// program is doing. Several goroutines may call the function. It writes at most ten times a second.
func (p *Progress) Share() func(done float64, what string) {
	shows := make(chan struct{}, 1)
	var last time.Time
	return func(done float64, what string) {
		select {
		case shows <- struct{}{}:
			if now := time.Now(); now.Sub(last) > 100*time.Millisecond {
				last = now
				filled := int(done * 30)
				p.Show("%-15s [%s%s] %3.0f %%", what, strings.Repeat("=", filled),
					strings.Repeat(" ", 30-filled), done*100)
			}
			<-shows
		default:
		}
	}
}
