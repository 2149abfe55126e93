package cli

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/command/commandtest"
)

func TestExamplesExist(t *testing.T) { commandtest.Examples(t, newRoot()) }
