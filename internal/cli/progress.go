package cli

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// progress rewrites one line on a terminal. Where the output is no terminal it prints nothing: a log wants results.
type progress struct {
	w     io.Writer
	shown int
}

func newProgress(w io.Writer) *progress {
	file, ok := w.(*os.File)
	if !ok {
		return &progress{}
	}
	if _, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS); err != nil {
		return &progress{}
	}
	return &progress{w: w}
}

func (p *progress) show(format string, args ...any) {
	if p.w == nil {
		return
	}
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(p.w, "\r%s%s", text, strings.Repeat(" ", max(0, p.shown-len(text))))
	p.shown = len(text)
}

// done takes the line away.
func (p *progress) done() {
	p.show("")
	if p.w != nil {
		fmt.Fprint(p.w, "\r")
	}
}
