// Package commandtest checks what the commands for people say about themselves. It is for tests alone.
package commandtest
