package cli

import (
	"strings"
	"testing"
)

func TestVersionCommand(t *testing.T) {
	var out, err strings.Builder
	if code := Run(t.Context(), []string{"version"}, &out, &err); code != 0 ||
		!strings.HasPrefix(out.String(), "cprof ") {
		t.Errorf("exit code = %d, standard output = %q, standard error = %q", code, &out, &err)
	}
}
