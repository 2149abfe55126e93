package privileged

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// Variable, set to 1, asks for privileged tests.
const Variable = "CLOUDPROFILER_PRIVILEGED"

// A T is a *testing.T.
type T interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
}

// Need skips the test unless privileged tests were asked for. It fails the test if privileged tests
// were asked for but cannot run.
func Need(t T) {
	t.Helper()
	if os.Getenv(Variable) != "1" {
		t.Skip("privileged tests are run by: make test-privileged")
		return
	}
	if err := Check(); err != nil {
		t.Fatal(err)
	}
}

// Check returns why privileged tests cannot run here and what to do, or nil if they can.
func Check() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("privileged tests need root: sudo make test-privileged")
	}
	// Root in a container may still lack the privilege. So try it, on a thread that ends with the
	// attempt.
	result := make(chan error)
	go func() {
		// never unlocked: the thread and its namespace end with this goroutine
		runtime.LockOSThread()
		result <- syscall.Unshare(syscall.CLONE_NEWNET)
	}()
	if err := <-result; err != nil {
		return fmt.Errorf("make a network namespace: %w: give the container CAP_SYS_ADMIN", err)
	}
	return nil
}
