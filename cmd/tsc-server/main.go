package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// The first signal asks it to write everything down and end. From then on signals act as usual: a second one kills.
	context.AfterFunc(ctx, stop)
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run is the command, and returns its exit code: 0 it ended as it was asked to, 1 it failed, 2 the command line or the configuration is
// wrong.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var path string
	var check bool
	cmd := &cobra.Command{
		Use:   "tsc-server",
		Short: "Coordinate the measuring of a fleet's counters",
		Long: `Coordinate the measuring of a fleet's counters.

Every node runs tsc-client, or cp-agent, which registers here. The server has all pairs measured, both ways, when nodes come, every
minute, and before, during and after runs. "cprof nodes" shows what came of it, "cprof run" makes runs, "cprof config" changes the
handler table.

Without keys it listens on this machine alone. Make keys with "cprof keys" to let other machines in.

It keeps what it knows in --state: killed and started again, it goes on where it was. SIGTERM writes everything down and ends.`,
		Example: `  tsc-server
  tsc-server --config /etc/cloudprofiler/tsc-server.yaml
  tsc-server --listen 0.0.0.0:7330 --key server.secret --client-keys clients/
  tsc-server --config /etc/cloudprofiler/tsc-server.yaml --check`,
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	cmd.Flags().StringVar(&path, "config", "", "configuration file; flags that are given hold over it")
	cmd.Flags().BoolVar(&check, "check", false, "read configuration and keys, say what is wrong with them, and end")
	addFlags(cmd)
	usage := true
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		c, err := readConfig(path, cmd)
		if err != nil {
			return err
		}
		link, err := c.link()
		if err != nil {
			return err
		}
		if check {
			fmt.Fprintln(stdout, "the configuration can be used")
			return nil
		}
		usage = false
		return serve(cmd.Context(), c, link, slog.New(slog.NewTextHandler(stderr, nil)))
	}
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintf(stderr, "tsc-server: %v\n", err)
	if usage {
		fmt.Fprintln(stderr, `see "tsc-server --help"`)
		return 2
	}
	return 1
}

func serve(ctx context.Context, c config, linkConfig control.ServerConfig, log *slog.Logger) error {
	store, err := coordinator.OpenStore(c.State, c.Runs)
	if err != nil {
		return err
	}
	defer store.Close()
	linkConfig.Log = log
	link, err := control.Listen(linkConfig)
	if err != nil {
		return err
	}
	defer link.Close()
	server, err := coordinator.NewServer(link, c.coordinator(), store, log)
	if err != nil {
		return err
	}
	if linkConfig.Key == nil {
		log.Warn("no keys: only programs on this machine are let in, and all of them; \"cprof keys\" makes keys")
	}
	log.Info("listening", "address", link.Address(), "state", c.State, "runs", c.Runs)
	if c.Metrics != "" {
		stop, err := serveMetrics(c.Metrics, server, log)
		if err != nil {
			return err
		}
		defer stop()
	}
	err = server.Run(ctx)
	log.Info("everything is written down")
	return err
}

func serveMetrics(address string, server *coordinator.Server, log *slog.Logger) (stop func(), err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(server, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	log.Info("metrics", "url", "http://"+listener.Addr().String()+"/metrics")
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: time.Minute, MaxHeaderBytes: 16 << 10}
	go func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics end", "error", err)
		}
	}()
	return func() { web.Close() }, nil
}
