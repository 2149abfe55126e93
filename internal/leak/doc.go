// Package leak checks that a package's tests leave nothing behind in their process: no goroutine,
// no file descriptor, and no mapping of a file that they made.
//
//	func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }
//
// It is only for tests. It checks once, after all tests. To find the test that leaks, run the tests
// one by one. If a goroutine is in a C library or in a system call, the package sees only the
// descriptors that the goroutine has open. Leaks of memory are found by the soak ("cp-bench soak").
package leak
