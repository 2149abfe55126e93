package generator

import (
	"fmt"
	"os"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
)

// The tests take ids from a directory of their own.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "generator-test")
	if err == nil {
		err = os.Setenv("CLOUDPROFILER_DIR", dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := leak.Main(m)
	os.RemoveAll(dir)
	os.Exit(code)
}
