// Package leak checks that a package's tests leave nothing behind in their process: no goroutine,
// no file descriptor, no mapping of a file that they made.
//
//	func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }
//
// It is only for tests. It checks once, after all tests. To find the test that leaks, run the tests
// one by one. It sees a goroutine within a C library or a system call only by the descriptors that
// the goroutine has open. Memory is left to the soak ("cp-bench soak").
package leak
