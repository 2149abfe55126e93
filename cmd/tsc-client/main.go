package main

import "github.com/cloudprofiler/cloudprofiler/internal/daemon"

func main() { daemon.Main(program) }

var program = daemon.Daemon[config]{
	Name:  "tsc-client",
	Short: "Answer probes and run trains, so that this node's counter can be related to others'",
	Long: `Answer probes and run trains, so that this node's counter can be related to others'.

A tsc-server (--server) or "cprof relate" (--command) tells tsc-client which nodes to probe. Without
keys, only programs on this machine can connect. "cprof keys" makes keys. A node that runs cp-agent
needs no tsc-client.

SIGTERM or SIGINT ends tsc-client.`,
	Example: `  tsc-client
  tsc-client --command 127.0.0.1:7340 --probes 127.0.0.1:7341
  tsc-client --config /etc/cloudprofiler/tsc-client.yaml
  tsc-client --config tsc-client.yaml --check
  tsc-client --server clocks.example:7330 --key node.secret --server-key server.public`,
	Flags: addFlags,
	Check: (*config).check,
	Serve: serve,
}
