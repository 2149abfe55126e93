package commandtest

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

var update = flag.Bool("update", false, "write the golden files")

// Root returns a cprof that has only these commands.
func Root(commands []*cobra.Command) *cobra.Command {
	root := &cobra.Command{Use: "cprof"}
	root.AddCommand(commands...)
	return root
}

// Run runs a command line of a cprof that has only these commands. It returns the exit code and the
// output.
func Run(commands []*cobra.Command, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = command.Run(context.Background(), Root(commands), args, &out, &errs)
	return code, out.String(), errs.String()
}

// Golden fails the test if got differs from the content of the file testdata/name. With the flag
// -update it writes got to the file instead.
func Golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := plainfile.Read(file, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("not as in %s; look at both, then go test -update:\n%s", file, got)
	}
}
