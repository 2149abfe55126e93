package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/watch"
)

const (
	// askEvery is the time between two requests to the server. A terminal shows each answer.
	askEvery = 200 * time.Millisecond

	// printEvery is the time between two pictures if they are printed one below the other.
	printEvery = time.Second

	// The first picture is printed this much later than --window demands. Relations and the agents'
	// Samples (package control) need this time to arrive.
	settleTime = 3 * time.Second
)

func newTop() *cobra.Command {
	var server serverFlags
	var once, asJSON bool
	window := 5 * time.Second
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show what a fleet logs at present: throughput and latency, with bounds",
		Long: fmt.Sprintf(`Show what a fleet logs at present: throughput and latency, with bounds.

Each line is a span, from one point to the next, the slowest first. A line in brackets is from the
first point of a tuple's path to the last. Percentiles are of a sample of the tuples of the last
seconds: "tuples" says how many. Events a second are counted exactly, on all nodes, at the end of
the span.

The head says how old the figures can be at most. While somebody watches, agents send counts and
samples five times a second; otherwise they send nothing. "!" marks an estimate: the data contradict
the declared wander, or come close to it. The column "seen" says why some tuples are not seen at
both ends: for example, a handler keeps only some tuples. Tuples that take longer than %v from one
point to the next are not shown.

Without a terminal, it prints a picture every second, with --json each as one line. It needs no open
run, but bounds are wide without one. Once the run is complete, "cprof analyze" shows more, with
narrower bounds.

Exit code 3, with --once: something is not known; it is listed last.`, watch.Kept),
		Example: `  cprof top
  cprof top --window 1s
  cprof top --once
  cprof top --once --json | jq '.spans[] | select(.p99.hi_ns > 1e6)'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if window < time.Second || window > watch.Kept {
				return command.Usagef("--window %v: want 1s to %v", window, watch.Kept)
			}
			link, err := server.dial(cmd)
			if err != nil {
				return err
			}
			defer link.Close()
			t := &topView{
				link: link, view: watch.New(window), out: cmd.OutOrStdout(), asJSON: asJSON,
			}
			if once {
				return t.showOnce(cmd.Context(), window+settleTime)
			}
			return t.showPictures(cmd.Context())
		},
	}
	server.add(cmd)
	f := cmd.Flags()
	f.DurationVar(&window, "window", window, "the time that is shown")
	f.BoolVar(&once, "once", false,
		"print one picture, as soon as there is one of the whole window")
	f.BoolVar(&asJSON, "json", false, "print each picture as one JSON object")
	return cmd
}

// topView asks the server what the fleet logs, and shows pictures of the answers.
type topView struct {
	link   *link
	view   *watch.View
	out    io.Writer
	asJSON bool
}

// takeLook asks the server once for news, and returns a picture of everything that is known after
// that.
func (t *topView) takeLook(ctx context.Context) (*watch.Picture, error) {
	var answer coordinator.WatchAnswer
	asked := time.Now()
	err := t.link.Ask(ctx, coordinator.AskWatch, t.view.Request(asked), &answer)
	var refused *control.RefusedError
	if errors.As(err, &refused) && refused.Code == control.UnknownKind {
		return nil, fmt.Errorf("%w: it is of an older release", err)
	}
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t.view.Add(asked, now, &answer)
	return t.view.Picture(now), nil
}

// showOnce asks the server again and again until the given time has passed, and then prints one
// picture. If the fleet has no nodes, it does not wait.
func (t *topView) showOnce(ctx context.Context, after time.Duration) error {
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for end := time.Now().Add(after); ; {
		p, err := t.takeLook(ctx)
		if err != nil {
			return err
		}
		hopeless := len(p.Nodes) == 0
		if hopeless || time.Now().After(end) {
			if err := t.print(p); err != nil {
				return err
			}
			switch {
			case len(p.Points) == 0:
				return errors.New("nothing is logged on any node, as far as is known")
			case len(p.Notes) > 0:
				return fmt.Errorf("something is not known: %w", command.ErrPartial)
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// showPictures shows pictures until the user interrupts the command. On a terminal each picture
// replaces the one before it.
func (t *topView) showPictures(ctx context.Context) error {
	show, end := t.inPlace()
	if show == nil {
		var last time.Time
		show, end = func(p *watch.Picture) error {
			if time.Since(last) < printEvery {
				return nil
			}
			last = time.Now()
			return t.print(p)
		}, func() {}
	}
	defer end()
	ticker := time.NewTicker(askEvery)
	defer ticker.Stop()
	for {
		p, err := t.takeLook(ctx)
		if err == nil {
			err = show(p)
		}
		if ctx.Err() != nil {
			return nil // the user has seen enough
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (t *topView) print(p *watch.Picture) error {
	if t.asJSON {
		return json.NewEncoder(t.out).Encode(p)
	}
	for _, line := range pictureLines(p, maxColumns) {
		if _, err := fmt.Fprintln(t.out, line); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(t.out)
	return err
}

// inPlace returns the function show, which replaces the picture on the terminal, and the function
// end, which makes the cursor visible again. If the output is not a terminal, both are nil.
func (t *topView) inPlace() (show func(*watch.Picture) error, end func()) {
	file, ok := command.FileOf(t.out)
	if !ok || t.asJSON {
		return nil, nil
	}
	size := func() (*unix.Winsize, error) {
		return unix.IoctlGetWinsize(int(file.Fd()), unix.TIOCGWINSZ)
	}
	if _, err := size(); err != nil {
		return nil, nil
	}
	const hide, appear, clear = "\x1b[?25l", "\x1b[?25h", "\x1b[2J"
	fmt.Fprint(file, hide+clear)
	show = func(p *watch.Picture) error {
		width, height := maxColumns, 1<<20
		if s, err := size(); err == nil && s.Col > 0 && s.Row > 0 {
			width, height = min(maxColumns, int(s.Col)), int(s.Row)-1
		}
		_, err := io.WriteString(file, framePicture(pictureLines(p, width), height))
		return err
	}
	return show, func() { fmt.Fprint(file, appear) }
}

// framePicture returns the text that replaces the content of a terminal with the given lines. If
// there are more lines than height, it leaves out the last ones and says how many they are.
func framePicture(lines []string, height int) string {
	const home, rest, below = "\x1b[H", "\x1b[K", "\x1b[J"
	if more := len(lines) - height; more > 0 {
		lines = append(lines[:max(height-1, 0):max(height-1, 0)],
			fmt.Sprintf("… %d more lines: enlarge the window", more+1))
	}
	text := home
	for _, line := range lines {
		text += command.Plain(command.Line(line)) + rest + "\r\n"
	}
	return text + below
}
