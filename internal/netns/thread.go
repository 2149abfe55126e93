package netns

import (
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// A thread runs tasks, one after another. At first it runs them in the process's namespace. The
// method leave moves the thread to a namespace of its own. Closing the channel ends the thread. The
// thread's namespace then ends, too, unless something else is in it.
type thread chan task

type task struct {
	run  func() error
	done chan error
}

func newThread() thread {
	t := make(thread)
	go func() {
		// The thread is never unlocked, so it and its namespace end with this goroutine.
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

// leave moves the thread to a new namespace of its own.
func (t thread) leave() error {
	return t.do(func() error {
		return os.NewSyscallError("unshare",
			unix.Unshare(unix.CLONE_NEWNET))
	})
}

// namespace opens a file that refers to the thread's namespace. With it, other threads can put
// links into the namespace.
func (t thread) namespace() (ns *os.File, err error) {
	err = t.do(func() (err error) {
		ns, err = os.Open("/proc/thread-self/ns/net")
		return err
	})
	return ns, err
}
