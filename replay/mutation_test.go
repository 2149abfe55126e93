package replay

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/mutation"
)

func TestMutations(t *testing.T) { mutation.Test(t, "testdata/mutations.txt") }
