// Package commandtest helps tests of the commands for people: it runs command lines, compares
// what they print with golden files, and checks what the commands say about themselves. It is for
// tests alone.
package commandtest
