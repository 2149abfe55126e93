package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
)

func main() { daemon.Main(program) }

var program = daemon.Daemon[config]{
	Name:  "tsc-server",
	Short: "Coordinate the measuring of a fleet's counters",
	Long: `Coordinate the measuring of a fleet's counters.

Every node runs tsc-client or cp-agent, which registers with this server. The server makes all pairs
of nodes measure each other in both directions: when nodes join, every minute, and before, during
and after runs. "cprof nodes" shows the results, "cprof run" makes runs, and "cprof config" changes
the handler table.

Without keys, only programs on this machine can connect. "cprof keys" makes keys for other machines.

The server keeps its data in --state. If it is killed and started again, it continues from these
data. SIGTERM makes it write everything to disk and end.`,
	Example: `  tsc-server
  tsc-server --config /etc/cloudprofiler/tsc-server.yaml
  tsc-server --listen 0.0.0.0:7330 --key server.secret --client-keys clients/
  tsc-server --config /etc/cloudprofiler/tsc-server.yaml --check`,
	Flags: addFlags,
	Check: (*config).check,
	Serve: serve,
}

func serve(ctx context.Context, s daemon.Start[config]) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(coordinator.GCPercent)
	}
	c, log := s.Config, s.Log
	linkConfig, err := c.link()
	if err != nil {
		return err
	}
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
		log.Warn("no keys: every program on this machine is let in, and no other; " +
			"\"cprof keys\" makes keys")
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
	log.Info("all data are stored")
	return err
}

func serveMetrics(address string, server *coordinator.Server,
	log *slog.Logger) (stop func(), err error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(server, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve metrics: %w", err)
	}
	log.Info("metrics", "url", "http://"+listener.Addr().String()+"/metrics")
	web := &http.Server{
		Handler: mux, MaxHeaderBytes: 16 << 10,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: time.Minute,
	}
	go func() {
		if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics end", "error", err)
		}
	}()
	return func() { web.Close() }, nil
}
