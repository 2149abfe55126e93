package host

import (
	"os"
	"testing"
)

// skipOutsideCI skips a test that this machine cannot run. In CI it fails the test instead, because
// there no check may be left out.
func skipOutsideCI(t *testing.T, reason string, args ...any) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf(reason, args...)
	}
	t.Skipf(reason, args...)
}
