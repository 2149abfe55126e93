// Package engine starts and stops the processes of clusters on the JVM, for the demonstrations of
// engines. Each process has a deadline, a log file and a limit on its memory. A cluster listens on
// the loopback interface only.
package engine
