package library

import (
	"os"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// full reports whether tests must run at full size.
func full() bool {
	size, err := proof.Wanted()
	return err == nil && size == proof.Full
}
