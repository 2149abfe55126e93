package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], proofs, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, list []listed, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("prove", flag.ContinueOnError)
	flags.SetOutput(stderr)
	size := flags.String("size", string(proof.Small), `how much to measure, "small" or "full"`)
	dir := flags.String("record", "", "write a dated record into this `directory`")
	only := flags.String("only", "", "run the proofs whose names match this regular "+
		"`expression`; without it, all but those that take an hour")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *size != string(proof.Small) && *size != string(proof.Full) || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "prove: size %q, arguments %q: want -size small or full and no "+
			"arguments\n", *size, flags.Args())
		return 2
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintf(stderr, "prove: -only %q: %v\n", *only, err)
		return 2
	}
	wanted := slices.DeleteFunc(slices.Clone(list),
		func(p listed) bool {
			return !match.MatchString(p.name) || p.byName && *only == "" ||
				p.full && *size != string(proof.Full)
		})
	if len(wanted) == 0 {
		fmt.Fprintf(stderr, "prove: -only %q: no proof has such a name\n", *only)
		return 2
	}
	record := proof.Record{LeftOut: len(list) - len(wanted), Begun: time.Now(),
		Size: proof.Size(*size), Commit: commit(ctx), Machine: proof.ThisMachine()}
	for _, p := range wanted {
		fmt.Fprintf(stdout, "%s: %s\n", p.name, strings.Join(p.command, " "))
		result := prove(ctx, p, record.Size, stderr)
		for _, bar := range result.Bars {
			note := ""
			if bar.Verdict() == proof.Missed && !bar.Judged(record.Size) {
				note = ": a timing, which only a full run judges"
			}
			fmt.Fprintf(stdout, "  %s%s\n", bar, note)
		}
		if result.Err != nil {
			fmt.Fprintf(stdout, "  failed: %v\n", result.Err)
		} else if len(result.Bars) == 0 {
			fmt.Fprintf(stdout, "  reported no bar: nothing is proven\n")
		}
		fmt.Fprintf(stdout, "  took %s\n", result.Cost())
		record.Results = append(record.Results, result)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "prove: interrupted, no record written")
		return 1
	}
	sum := record.Count()
	fmt.Fprintln(stdout, sum)
	if *dir != "" {
		name, err := record.Save(*dir)
		if err != nil {
			fmt.Fprintf(stderr, "prove: %v\n", err)
			return 1
		}
		fmt.Fprintf(stdout, "record: %s\n", name)
	}
	switch {
	case sum.Missed > 0:
		return 1
	case sum.Absent > 0:
		return 3
	default:
		return 0
	}
}

// partial is the exit code of a command that could measure only some of its bars.
const partial = 3

// prove runs one command and collects the bars that the command reports.
func prove(ctx context.Context, p listed, size proof.Size, output io.Writer) proof.Result {
	result := proof.Result{Name: p.name, Command: fmt.Sprintf("CLOUDPROFILER_PROOF=%s %s",
		size, strings.Join(p.command, " "))}
	dir, err := os.MkdirTemp("", "prove")
	if err != nil {
		result.Err = err
		return result
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "bars")

	begun := time.Now()
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.Env = append(os.Environ(), "CLOUDPROFILER_PROOF="+string(size), "CLOUDPROFILER_PROOF_FILE="+
		name)
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // lets it clean up
	cmd.WaitDelay = 30 * time.Second
	result.Err = cmd.Run()
	result.Took = time.Since(begun)
	if state := cmd.ProcessState; state != nil {
		result.CPU = state.UserTime() + state.SystemTime()
	}

	file, err := os.Open(name)
	if err != nil {
		return result // a command that reports nothing has failed
	}
	defer file.Close()
	bars, text, err := proof.Read(file)
	if absent := func(b proof.Bar) bool { return b.Absent != "" }; slices.ContainsFunc(bars,
		absent) &&
		cmd.ProcessState.ExitCode() == partial {
		result.Err = nil // the bars without a figure say why
	}
	if err != nil && result.Err == nil {
		result.Err = err
	}
	result.Bars, result.Text = bars, text
	return result
}

// commit returns the commit of the source that is proven. If the source differs from that commit,
// it says so.
func commit(ctx context.Context) string {
	git := func(args ...string) string {
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		if err != nil {
			return "unknown"
		}
		return strings.TrimSpace(string(out))
	}
	revision := git("rev-parse", "--short=12", "HEAD")
	if git("status", "--porcelain") != "" {
		revision += " with uncommitted changes"
	}
	return revision
}
