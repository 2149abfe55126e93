package main

import (
	"os"

	"github.com/cloudprofiler/cloudprofiler/internal/cli"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
)

func main() { os.Exit(cli.Run(daemon.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr)) }
