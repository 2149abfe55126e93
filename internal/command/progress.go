package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Progress rewrites one line on a terminal. Where the output is no terminal it prints nothing: a log wants results.
type Progress struct {
	w     io.Writer
	shown int
}

// NewProgress shows progress on w, if that is a terminal.
func NewProgress(w io.Writer) *Progress {
	file, ok := FileOf(w)
	if !ok {
		return &Progress{}
	}
	if _, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS); err != nil {
		return &Progress{}
	}
	return &Progress{w: file} // past plain: it moves the cursor
}

// Show replaces the line.
func (p *Progress) Show(format string, args ...any) {
	if p.w == nil {
		return
	}
	text := Line(fmt.Sprintf(format, args...))
	fmt.Fprintf(p.w, "\r%s%s", text, strings.Repeat(" ", max(0, p.shown-len(text))))
	p.shown = len(text)
}

// Done takes the line away.
func (p *Progress) Done() {
	p.Show("")
	if p.w != nil {
		fmt.Fprint(p.w, "\r")
	}
}

// Share returns what shows how much is done, of 1, and what is being done. Any number of goroutines may
// call it; it writes ten times a second at the most.
func (p *Progress) Share() func(done float64, what string) {
	shows := make(chan struct{}, 1)
	var last time.Time
	return func(done float64, what string) {
		select {
		case shows <- struct{}{}:
			if now := time.Now(); now.Sub(last) > 100*time.Millisecond {
				last = now
				filled := int(done * 30)
				p.Show("%-15s [%s%s] %3.0f %%", what, strings.Repeat("=", filled), strings.Repeat(" ", 30-filled), done*100)
			}
			<-shows
		default:
		}
	}
}
