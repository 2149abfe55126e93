package ring

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// ErrShrunk is returned when a ring file was cut under its reader.
var ErrShrunk = errors.New("ring file shrank under its reader")

// guard runs f, which reads or writes a mapping of somebody else's file. A page that is no longer there would be the end of
// the process; here it is an error.
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
