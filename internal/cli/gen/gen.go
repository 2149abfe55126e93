package gen

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func newGen() *cobra.Command {
	gen := &cobra.Command{
		Use:   "gen",
		Short: "Load a system on an exact schedule, and find the throughput that it sustains",
		Long: `Load a system on an exact schedule, and find the throughput that it sustains.

Before the run, a sender decides when each tuple is due. It never changes these times. If the system
refuses tuples for a time, or this machine falls behind, tuples are sent late and counted. A
receiver checks that every tuple comes, and only once.`,
		Example: `  cprof gen receive --at tcp://127.0.0.1:5555
  cprof gen send --to tcp://127.0.0.1:5555 --rate 100000 --duration 10s
  cprof gen search --target bucket:100000`,
	}
	gen.AddCommand(newGenSend(), newGenReceive(), newGenSearch(), newGenPlot())
	return gen
}

// tupleFlags say what to send.
type tupleFlags struct {
	file   string
	format string
	size   int
}

func (f *tupleFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "tuples", "", "file with serialized tuples, sent again and "+
		"again (default: made-up advertising events in JSON)")
	cmd.Flags().StringVar(&f.format, "format", "lines",
		"what the file holds: lines (one tuple a line, such as JSON) or delimited (each after "+
			"its length as a varint, as protobuf writes them)")
	cmd.Flags().IntVar(&f.size, "size", 265, "size of a made-up tuple in bytes; each message "+
		"has 12 more")
}

// madeUp is the number of different tuples that the command makes if the user gives no file of
// tuples.
const madeUp = 10_000

func (f *tupleFlags) load() (*generator.Tuples, error) {
	if f.format != "lines" && f.format != "delimited" {
		return nil, command.Usagef("--format %q: want lines or delimited", f.format)
	}
	if f.file == "" {
		tuples, err := generator.Advertisements(madeUp, f.size, 1)
		if errors.Is(err, generator.ErrTuple) {
			return nil, command.Usagef("--size %d: %v", f.size, err)
		}
		return tuples, err
	}
	file, err := os.Open(f.file)
	if err != nil {
		return nil, fmt.Errorf("load tuples: %w", err)
	}
	defer file.Close()
	tuples := &generator.Tuples{}
	if f.format == "lines" {
		err = tuples.LoadLines(file)
	} else {
		err = tuples.LoadDelimited(file)
	}
	if err == nil && tuples.Len() == 0 {
		err = errors.New("it holds none")
	}
	if err != nil {
		return nil, fmt.Errorf("load tuples from %q: %w", f.file, err)
	}
	return tuples, nil
}

// channelFlags say whether events are logged, and where.
type channelFlags struct {
	off bool
	dir string
}

func (f *channelFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.off, "no-log", false, "log no events to channels")
	cmd.Flags().StringVar(&f.dir, "rings", "",
		"directory of the rings (default $CLOUDPROFILER_DIR, else this user's in /dev/shm)")
}

// options returns the options of the channels, or nil if nothing is to be logged. A load test must
// not wait until a ring is drained, so events that find a full ring are dropped, and the ring
// counts them.
func (f *channelFlags) options() *handlers.Options {
	if f.off {
		return nil
	}
	return &handlers.Options{Dir: f.dir, Policy: "drop", Buffer: "16MiB"}
}

// checkEndpoints checks the addresses that a user gives.
func checkEndpoints(flag string, list []string) error {
	for _, e := range list {
		if transport, rest, ok := strings.Cut(e, "://"); !ok || rest == "" ||
			transport != "tcp" && transport != "ipc" {
			return command.Usagef("--%s %q: want an address such as tcp://192.0.2.7:5555 or "+
				"ipc:///tmp/engine", flag, e)
		}
	}
	return nil
}

// A noticeWriter prints each mark (a warning about the run) as soon as it is made, above the line
// of progress.
type noticeWriter struct {
	mu   sync.Mutex
	w    io.Writer
	line *command.Progress
}

func (n *noticeWriter) say(notice generator.Notice) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.line.Done()
	fmt.Fprintf(n.w, "%s: %s\n", notice.Mark, notice.Text)
}

func (n *noticeWriter) show(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.line.Show(format, args...)
}

// marksError returns an error if a run has marks. Without this error the command would succeed, and
// a script would trust the numbers although nobody has read the marks.
func marksError(marks []generator.Marked) error {
	if len(marks) == 0 {
		return nil
	}
	var texts []string
	for _, m := range marks {
		texts = append(texts, fmt.Sprintf("%s (%d)", m.Mark, m.Count))
	}
	return fmt.Errorf("the numbers are marked %s: %w", strings.Join(texts, ", "),
		command.ErrPartial)
}

func printMarks(w io.Writer, marks []generator.Marked) {
	for _, m := range marks {
		fmt.Fprintf(w, "marked       %s, %d times: %s\n", m.Mark, m.Count, m.Text)
	}
}

// showRepeatedly starts to call show a few times a second. The calls end when the caller calls
// stop.
func showRepeatedly(show func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				show()
			}
		}
	}()
	return func() { close(end); <-ended }
}
