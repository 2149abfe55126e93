package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/cloudprofiler/cloudprofiler/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	// The first signal asks the command to clean up and end. From then on signals act as usual: a second one kills.
	context.AfterFunc(ctx, stop)
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}
