// Package leak wants a package's tests to leave nothing behind in their process: no goroutine, no file descriptor, no mapping of a file
// that they made.
//
//	func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }
//
// It is for tests alone. It looks once, after all of them; which one leaks shows by running them apart. Goroutines within a C library or a
// system call are not seen, except by the descriptors that they hold. Memory is for the soak ("cp-bench soak").
package leak
