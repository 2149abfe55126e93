package ring

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrShrunk is returned if a ring file was cut while it was read.
var ErrShrunk = errors.New("ring file shrank under its reader")

// guard runs f, which accesses a mapping of a file that other processes can cut. Without guard,
// access to a missing page would end the process; guard returns an error instead.
func guard(f func()) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch fault := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // the runtime's own, for a memory fault
			err = ErrShrunk
		default:
			panic(fmt.Sprint(fault)) // a defect of ours
		}
	}()
	f()
	return nil
}
