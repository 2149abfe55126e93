package answers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/explore"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
	"github.com/cloudprofiler/cloudprofiler/report"
)

func newServe() *cobra.Command {
	var flags analyzeFlags
	var listen string
	cmd := &cobra.Command{
		Use:   "serve RUN [RUN]",
		Short: "Serve a run as a page to explore: from the whole run down to single events",
		Long: `Serve a run as a page to explore, until it is interrupted. RUN is the directory of a
run. With two runs, the page shows them side by side.

The page zooms from the whole run down to single events. It finds tuples by id, by a spike in a
latency curve, or by where they were lost. docs/explore.md says how to use it. The page has a link
to the report that cprof report writes.

The first time, the run is analyzed and an index is written into its directory: the file
exports/explore.index, with about 40 bytes for each event. While it is made, the directory for
scratch files takes about 60 bytes for each event. Later the index is used again, unless the run or
the flags have changed.

Whoever can connect to the address can read the run. By default only this machine can.

Exit code 1: nothing could be served. Exit code 3: it was served, and parts of it are suspect,
missing or undecided.`,
		Example: `  cprof serve runs/tuesday
  cprof serve runs/monday runs/tuesday
  cprof serve runs/tuesday --listen :7070    # for every machine that reaches this one`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := flags.options()
			if err != nil {
				return err
			}
			return serve(cmd.Context(), args, o, listen, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags.add(cmd)
	cmd.ValidArgsFunction = command.CompleteRuns(2)
	flags.addSlowest(cmd)
	flags.slowest = 10 // for the report
	cmd.Flags().Lookup("slowest").DefValue = "10"
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:7070",
		"address and port to serve at; port 0: any that is free")
	return cmd
}

func serve(ctx context.Context, paths []string, o analysis.Options, listen string, stdout,
	stderr io.Writer) (err error) {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return command.Usagef("--listen %q: give an address and a port, as 127.0.0.1:7070", listen)
	}
	// The server opens its port before it makes the index, so that nobody waits for an index and
	// then learns that the port is in use.
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("serve at %q: %w: choose another with --listen", listen, err)
	}
	defer func() {
		if e := listener.Close(); !errors.Is(e, net.ErrClosed) {
			err = errors.Join(err, e)
		}
	}()
	// The events need Memory_bytes, and the rest of the index needs less than is added here. Near
	// this limit, the garbage collector works more often.
	debug.SetMemoryLimit(o.Memory_bytes + 384<<20)
	var indexes []*explore.Index
	defer func() {
		for _, x := range indexes {
			err = errors.Join(err, x.Close())
		}
	}()
	var partial []string
	for _, path := range paths {
		x, e := prepare(ctx, path, o, stderr)
		if e != nil {
			return e
		}
		indexes = append(indexes, x)
		if x.Meta.Partial {
			partial = append(partial, path)
		}
	}
	fmt.Fprintf(stdout, "http://%s/\n", shownAddress(listener, host))
	if err := explore.Serve(ctx, listener, explore.Handler(indexes, host)); err != nil {
		return err
	}
	if len(partial) > 0 {
		return fmt.Errorf("parts of run %q are suspect, missing or undecided: %w: \"cprof analyze "+
			"%s\" with the same flags names them", partial[0], command.ErrPartial, partial[0])
	}
	return nil
}

// shownAddress returns the address for a browser. If the server listens at all addresses of this
// machine, a browser reaches the page at any of them.
func shownAddress(l net.Listener, host string) string {
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}

// prepare opens a run's index. If the run has no index that fits, the function prepare makes one.
func prepare(ctx context.Context, path string, o analysis.Options,
	stderr io.Writer) (*explore.Index, error) {
	dir, err := command.OpenRun(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	if err := readyOptions(dir, &o); err != nil {
		return nil, err
	}
	line := command.NewProgress(stderr)
	o.Progress = line.Share()
	defer line.Done()
	x, err := explore.Prepare(ctx, dir, o, func(a *analysis.Answer) ([]byte, error) {
		var page bytes.Buffer
		err := report.Write(&page, report.From(a, dir, daemon.Version("cprof")))
		return page.Bytes(), err
	}, func(why string) {
		fmt.Fprintf(stderr, "%s: %s\n", cmp.Or(dir.Run.Name, path), why)
	})
	if err != nil {
		return nil, err
	}
	about := &analysis.Answer{
		Work:     analysis.Work{Tuples: x.Meta.Tuples},
		Channels: make([]analysis.Channel, len(x.Meta.Channels)),
	}
	if err := needAnswer(about, dir, &o.Filter); err != nil {
		return nil, errors.Join(err, x.Close())
	}
	return x, nil
}
