package host

import (
	"os"
	"testing"
)

// skipOutsideCI skips a test that this machine cannot run. In CI that is a failure: a check that
// was not made must not pass.
func skipOutsideCI(t *testing.T, reason string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(reason, args...)
	}
	t.Skipf(reason, args...)
}
