package commands

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
)

func TestMain(m *testing.M) {
	if args := os.Args[1:]; len(args) == 1 && args[0] == captureProcessOf {
		os.Exit(Run(context.Background(), args, os.Stdout, os.Stderr))
	}
	os.Exit(leak.Main(m))
}

// cpBench runs the command and returns what it printed.
func cpBench(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}
