package commands

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// cpBench runs the command and returns what it printed.
func cpBench(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = Run(context.Background(), args, &out, &errs)
	return code, out.String(), errs.String()
}
