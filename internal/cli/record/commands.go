package record

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/blackbox/capture"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/ring"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// An Answer prints the answer of "cprof analyze" for a run. If program is not empty, it prints only
// what concerns the captured messages of that program.
type Answer func(ctx context.Context, cmd *cobra.Command, run, program string) error

// Commands returns the commands of this package, which belong below cprof.
func Commands(answer Answer) []*cobra.Command {
	return []*cobra.Command{newRecord(answer), newAttach(answer)}
}

func newRecord(answer Answer) *cobra.Command {
	var name string
	var noCapture bool
	cmd := &cobra.Command{
		Use:   "record PROGRAM [ARGUMENT...]",
		Short: "Run a program, and say where its tuples spent their time",
		Long: `Run a program, and say where its tuples spent their time. There is nothing to
configure or to start before.

While the program runs, this command is its agent: it moves what the program and its children log
into a run. When the program ends, the command prints the answer of "cprof analyze". The run stays
in $CLOUDPROFILER_RUNS, else in the directory runs, so that "cprof report" and "cprof serve" can
show more.

A program that logs needs no rights. If this process has the rights to capture messages ("sudo"),
the answer also says which programs exchanged messages over sockets while the program ran, whether
they log or not.

^C ends the program, and then the answer comes. Exit code 1: nothing was recorded, or the program
failed. Exit code 3: parts are suspect, missing or undecided.`,
		Example: `  cprof record ./program
  cprof record --run tuesday java -jar job.jar
  sudo cprof record ./program`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := exec.LookPath(args[0])
			if err != nil {
				return command.UsageError{Err: fmt.Errorf("record: %w", err)}
			}
			if name, err = runName(name, args[0]); err != nil {
				return err
			}
			r, err := start(name)
			if err != nil {
				return err
			}
			var noRights error
			if !noCapture {
				noRights = r.agent.StartCapture()
			}
			failed := r.runProgram(cmd, path, args)
			run, err := r.finish()
			if err != nil {
				return errors.Join(failed, err)
			}
			err = r.answer(cmd, answer, run, "", noRights)
			if failed != nil && (err == nil || errors.Is(err, command.ErrPartial)) {
				return failed
			}
			return err
		},
	}
	addName(cmd, &name)
	cmd.Flags().SetInterspersed(false) // flags after PROGRAM are the program's
	cmd.Flags().BoolVar(&noCapture, "no-capture", false,
		"do not capture messages, even if you have the rights to do so")
	return cmd
}

func newAttach(answer Answer) *cobra.Command {
	var name string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "attach PID",
		Short: "Say with whom a running program exchanges messages",
		Long: `Say with whom a running program exchanges messages over sockets, and how long the
transfers take. The program needs no change, and is not started again.

The command captures until ^C, until the program ends, or for the time that --for gives. Then it
prints the messages of all processes on this machine that have the program's name. It needs the
rights to capture: start it with sudo. "sudo cprof doctor" says whether this machine can capture.`,
		Example: `  sudo cprof attach 4711
  sudo cprof attach --for 10s $(pidof -s java)`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			program, ended, err := find(args[0])
			if err != nil {
				return err
			}
			defer ended.Close()
			if _, err := capture.Check(); err != nil {
				return fmt.Errorf("attach to process %s: %w", args[0], err)
			}
			if name, err = runName(name, program); err != nil {
				return err
			}
			r, err := start(name)
			if err != nil {
				return err
			}
			if err := r.agent.StartCapture(); err != nil {
				return errors.Join(err, r.abandon())
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "capturing the messages of %s: ^C ends it\n", program)
			waitForEnd(cmd.Context(), ended, limit)
			run, err := r.finish()
			if err != nil {
				return err
			}
			return r.answer(cmd, answer, run, program, nil)
		},
	}
	addName(cmd, &name)
	cmd.Flags().DurationVar(&limit, "for", 0, "end after this time (default: no limit)")
	return cmd
}

func addName(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "run", "", "name of the run (default: the program's name and the "+
		"time)")
}

// runName returns the name of the run. No run has this name yet.
func runName(name, program string) (string, error) {
	chosen := name != ""
	if !chosen {
		word := strings.TrimLeft(strings.Map(func(r rune) rune {
			if r == '-' || r == '_' || r == '.' || '0' <= r && r <= '9' || 'a' <= r && r <= 'z' ||
				'A' <= r && r <= 'Z' {
				return r
			}
			return '_'
		}, filepath.Base(program)), "-.")
		name = word[:min(len(word), 60)] + time.Now().Format("-20060102-150405")
	}
	if err := runs.CheckName(name); err != nil {
		return "", command.UsageError{Err: err}
	}
	for base, n := name, 2; ; n++ {
		path := pathOf(name)
		switch {
		case path == "":
			return name, nil
		case chosen:
			return "", command.Usagef("--run %q: %q exists: choose another name, or remove it",
				name, path)
		}
		name = fmt.Sprintf("%s-%d", base, n) // two programs began in the same second
	}
}

// pathOf returns the path of the run with this name, even if the run is not complete. If there is
// no such run, it returns "".
func pathOf(name string) string {
	for _, path := range []string{name, name + ".part"} {
		path = filepath.Join(command.RunsDir(), path)
		if _, err := os.Lstat(path); err == nil {
			return path
		}
	}
	return ""
}

// runProgram runs the program until it ends. If the command is cancelled, it asks the program to
// end.
func (r *recording) runProgram(cmd *cobra.Command, path string, args []string) error {
	p := exec.CommandContext(cmd.Context(), path, args[1:]...)
	p.Args[0] = args[0]
	p.Env = append(os.Environ(), ring.DirectoryVariable+"="+r.rings)
	p.Stdin = cmd.InOrStdin()
	p.Stdout, p.Stderr = cmd.OutOrStdout(), cmd.ErrOrStderr()
	if file, ok := command.FileOf(cmd.OutOrStdout()); ok {
		p.Stdout = file // a file, so that the program can see whether it is a terminal
	}
	if file, ok := command.FileOf(cmd.ErrOrStderr()); ok {
		p.Stderr = file
	}
	p.Cancel = func() error { return p.Process.Signal(syscall.SIGTERM) }
	p.WaitDelay = 10 * time.Second // after this the program is killed; what it has logged is kept
	err := p.Run()
	if err != nil && cmd.Context().Err() != nil {
		return nil // the user ended the program
	}
	if err != nil {
		return fmt.Errorf("program %q: %w", args[0], err)
	}
	return nil
}

// answer prints the answer for the run, and the run's directory. If nothing was recorded, it
// removes the run instead, and returns an error that says why.
func (r *recording) answer(cmd *cobra.Command, answer Answer, run, program string,
	noRights error) error {
	if !r.recorded {
		logged := ""
		if program == "" { // nobody attached to a program
			logged = "the program logged no event in the directory that $" +
				ring.DirectoryVariable + " names, and "
		}
		err := fmt.Errorf("nothing was recorded, so there is no run: %sno message was captured",
			logged)
		if noRights != nil {
			err = fmt.Errorf("%w, because messages could not be captured: %w", err, noRights)
		}
		return errors.Join(err, os.RemoveAll(run))
	}
	// The user may have ended the program with ^C, but still wants the answer.
	err := answer(context.WithoutCancel(cmd.Context()), cmd, run, program)
	fmt.Fprintf(cmd.OutOrStdout(), "\nthe run is %s: cprof report %s\n", run, run)
	return err
}

// find returns the name of a process, and a file that becomes readable when the process ends.
func find(pid string) (program string, ended *os.File, err error) {
	var number int
	if n, err := fmt.Sscanf(pid, "%d", &number); n != 1 || err != nil || number < 1 ||
		fmt.Sprint(number) != pid {
		return "", nil, command.Usagef("PID %q: give the number of a process", pid)
	}
	fd, err := unix.PidfdOpen(number, 0)
	if errors.Is(err, unix.EINVAL) {
		return "", nil, fmt.Errorf("attach to %d: it is a thread: give the number of its process",
			number)
	}
	if err != nil {
		return "", nil, fmt.Errorf("attach to process %d: %w", number, err)
	}
	ended = os.NewFile(uintptr(fd), "process "+pid)
	const maxNameBytes = 64 // the kernel keeps 16
	text, err := plainfile.Read(filepath.Join("/proc", pid, "comm"), maxNameBytes)
	if err != nil {
		ended.Close()
		return "", nil, fmt.Errorf("attach to process %d: %w", number, err)
	}
	return strings.TrimSuffix(string(text), "\n"), ended, nil
}

// waitForEnd waits until ctx or the process ends. If limit is not 0, it waits no longer than that.
func waitForEnd(ctx context.Context, process *os.File, limit time.Duration) {
	if limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, limit)
		defer stop()
	}
	const look = 50 * time.Millisecond
	for ctx.Err() == nil {
		poll := []unix.PollFd{{Fd: int32(process.Fd()), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, int(look.Milliseconds())); n > 0 ||
			err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}
