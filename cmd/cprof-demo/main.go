package main

import (
	"os"

	"github.com/cloudprofiler/cloudprofiler/examples/demo"
	"github.com/cloudprofiler/cloudprofiler/internal/daemon"
)

func main() { os.Exit(demo.Main(daemon.UntilSignal(), os.Args[1:], os.Stdout, os.Stderr)) }
