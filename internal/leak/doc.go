// Package leak checks that a package's tests leave nothing behind in their process: no goroutine,
// no file descriptor, no mapping of a file that they made.
//
//	func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }
//
// It is for tests alone. It looks once, after all of them; to find the one that leaks, run them one
// by one. It does not see goroutines within a C library or a system call, except by the descriptors
// that they hold. Memory is left to the soak ("cp-bench soak").
package leak
