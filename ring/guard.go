package ring

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrShrunk is returned if a ring file was cut while it was read.
var ErrShrunk = errors.New("ring file shrank under its reader")

// guard runs f, which accesses a mapping of a file that other processes can cut. Without guard, an
// access to a missing page ends the process. With guard, such an access causes an error.
func guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // the Go runtime's error for a memory fault
			err = ErrShrunk
		default:
			panic(fmt.Sprint(fault)) // a defect in this package
		}
	}()
	f()
	return nil
}
