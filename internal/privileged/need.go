package privileged

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
)

// Variable is the environment variable that requests privileged tests if it is 1.
const Variable = "CLOUDPROFILER_PRIVILEGED"

// A T is the part of *testing.T that this package uses.
type T interface {
	Helper()
	Fatal(args ...any)
	Skip(args ...any)
}

// Need skips the test if nobody requested privileged tests. If somebody did, but the tests cannot
// run here, Need fails the test.
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

// Check returns nil if privileged tests can run here. If not, the error says why and what to do.
func Check() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("privileged tests need root: sudo make test-privileged")
	}
	// In a container, root may still lack the privilege. So try to make a namespace, on a thread
	// that ends after the attempt.
	result := make(chan error)
	go func() {
		// The thread is never unlocked, so the thread and its namespace end with this goroutine.
		runtime.LockOSThread()
		result <- syscall.Unshare(syscall.CLONE_NEWNET)
	}()
	if err := <-result; err != nil {
		return fmt.Errorf("make a network namespace: %w: give the container CAP_SYS_ADMIN", err)
	}
	return nil
}
