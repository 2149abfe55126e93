package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/sim/server"
)

// TestMain runs a part of a simulation if the leader of a test asks for it.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "part" {
		var p Part
		err := json.Unmarshal([]byte(os.Args[2]), &p)
		if err == nil {
			err = Work(context.Background(), p, server.Classes())
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(leak.Main(m))
}
