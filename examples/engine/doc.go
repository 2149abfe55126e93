// Package engine has what the demonstrations of engines share. It starts and stops the processes
// of clusters on the JVM, and runs a demonstration from its flags to its result. Each process has a
// deadline, a log file and a limit on its memory. A cluster listens on the loopback interface only.
package engine
