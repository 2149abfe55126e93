package netns

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// A thread runs tasks, one after another. After leave, it runs them in a namespace of its own
// instead of the namespace of the process. Closing the channel ends the thread, and also its
// namespace unless something else is in it.
type thread chan task

type task struct {
	run  func() error
	done chan error
}

func newThread() thread {
	t := make(thread)
	go func() {
		// never unlocked: the thread and its namespace end with this goroutine
		runtime.LockOSThread()
		for task := range t {
			task.done <- task.run()
		}
	}()
	return t
}

func (t thread) do(f func() error) error {
	task := task{f, make(chan error, 1)}
	t <- task
	return <-task.done
}

// leave gives the thread a namespace of its own.
func (t thread) leave() error {
	return t.do(func() error {
		return os.NewSyscallError("unshare",
			unix.Unshare(unix.CLONE_NEWNET))
	})
}

// namespace opens the thread's namespace, so that others can put something into it.
func (t thread) namespace() (ns *os.File, err error) {
	err = t.do(func() (err error) {
		ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return ns, err
}
