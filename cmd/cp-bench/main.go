package main

import (
	"os"

	"github.com/cloudprofiler/cloudprofiler/bench/commands"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
)

func main() { os.Exit(commands.Run(daemon.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr)) }
