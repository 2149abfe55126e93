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
	os.Exit(run(ctx, os.Args[1:], proofs, proof.MeasurePace, os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, list []listed, measurePace func() (float64, error), stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("prove", flag.ContinueOnError)
	flags.SetOutput(stderr)
	size := flags.String("size", string(proof.Small), `how much to measure, "small" or "full"`)
	dir := flags.String("record", "", "write a dated record into this `directory`")
	only := flags.String("only", "", "run the proofs whose names match this regular `expression`; without it all but those that take an hour")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if *size != string(proof.Small) && *size != string(proof.Full) || flags.NArg() > 0 {
		fmt.Fprintf(stderr, "prove: size %q, arguments %q: want -size small or full and no arguments\n", *size, flags.Args())
		return 2
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintf(stderr, "prove: -only %q: %v\n", *only, err)
		return 2
	}
	wanted := slices.DeleteFunc(slices.Clone(list), func(p listed) bool { return !match.MatchString(p.name) || p.byName && *only == "" })
	if len(wanted) == 0 {
		fmt.Fprintf(stderr, "prove: -only %q: no proof has such a name\n", *only)
		return 2
	}
	record := proof.Record{LeftOut: len(list) - len(wanted), Begun: time.Now(), Size: proof.Size(*size), Commit: commit(ctx), Machine: proof.ThisMachine()}
	pace, err := measurePace()
	if err != nil {
		fmt.Fprintf(stderr, "prove: %v\n", err)
		return 1
	}
	record.Machine.Pace = pace
	for _, p := range wanted {
		fmt.Fprintf(stdout, "%s: %s\n", p.name, strings.Join(p.command, " "))
		result := prove(ctx, p, record.Size, paceNow(record.Size, measurePace), stderr)
		show(stdout, result)
		if record.Size == proof.Small && result.Excusable() {
			fmt.Fprintf(stdout, "  measured once more, as other load worsens such figures:\n")
			before := result.Bars
			result = prove(ctx, p, record.Size, paceNow(record.Size, measurePace), stderr)
			result.Before = before
			show(stdout, result)
		}
		if result.Err != nil {
			fmt.Fprintf(stdout, "  failed: %v\n", result.Err)
		} else if len(result.Bars) == 0 {
			fmt.Fprintf(stdout, "  reported no bar: nothing is proven\n")
		}
		record.Results = append(record.Results, result)
	}
	if ctx.Err() != nil {
		fmt.Fprintln(stderr, "prove: interrupted, no record written")
		return 1
	}
	reached, missed, absent := record.Count()
	fmt.Fprintf(stdout, "%d reached, %d missed, %d absent\n", reached, missed, absent)
	if *dir != "" {
		name, err := record.Save(*dir)
		if err != nil {
			fmt.Fprintf(stderr, "prove: %v\n", err)
			return 1
		}
		fmt.Fprintf(stdout, "record: %s\n", name)
	}
	switch {
	case missed > 0 || reached+absent == 0:
		return 1
	case absent > 0:
		return 3
	default:
		return 0
	}
}

// paceNow is measured before each proof: a shared machine is half as fast for minutes. A full run holds limits as they stand.
func paceNow(size proof.Size, measurePace func() (float64, error)) float64 {
	if size == proof.Full {
		return 1
	}
	pace, err := measurePace()
	if err != nil {
		return 1
	}
	return pace
}

func show(w io.Writer, result proof.Result) {
	for _, bar := range result.Bars {
		fmt.Fprintf(w, "  %s\n", bar)
	}
}

// prove runs one command and collects the bars that it reports.
func prove(ctx context.Context, p listed, size proof.Size, pace float64, output io.Writer) proof.Result {
	result := proof.Result{Name: p.name, Command: fmt.Sprintf("CLOUDPROFILER_PROOF=%s %s", size, strings.Join(p.command, " "))}
	dir, err := os.MkdirTemp("", "prove")
	if err != nil {
		result.Err = err
		return result
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "bars")

	begun := time.Now()
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.Env = append(os.Environ(), "CLOUDPROFILER_PROOF="+string(size), "CLOUDPROFILER_PROOF_FILE="+name, proof.PaceEnvironment(pace))
	cmd.Stdout, cmd.Stderr = output, output
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // let it clean up
	cmd.WaitDelay = 30 * time.Second
	result.Err = cmd.Run()
	result.Took = time.Since(begun)

	file, err := os.Open(name)
	if err != nil {
		return result // it reported nothing, which counts against it
	}
	defer file.Close()
	bars, text, err := proof.Read(file)
	if err != nil && result.Err == nil {
		result.Err = err
	}
	result.Bars, result.Text = bars, text
	return result
}

// commit is the state of the source that the proofs are about.
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
		revision += " and changes"
	}
	return revision
}
