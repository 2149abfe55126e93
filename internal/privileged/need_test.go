package privileged

import (
	"net"
	"runtime"
	"syscall"
	"testing"
)

type fakeT struct{ fatal, skip int }

func (f *fakeT) Helper()      {}
func (f *fakeT) Fatal(...any) { f.fatal++ }
func (f *fakeT) Skip(...any)  { f.skip++ }

func TestNeedSkipsUnlessAsked(t *testing.T) {
	for _, value := range []string{"", "0", "yes"} {
		t.Setenv(Variable, value)
		var got fakeT
		if Need(&got); got != (fakeT{skip: 1}) {
			t.Errorf("%s=%q: %+v, want one skip", Variable, value, got)
		}
	}
}

func TestNeedNeverSkipsWhenAsked(t *testing.T) {
	t.Setenv(Variable, "1")
	want := fakeT{}
	if Check() != nil {
		want.fatal = 1
	}
	var got fakeT
	if Need(&got); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// A new network namespace has only a loopback interface, which is down.
func TestPrivilegedNamespaceIsEmpty(t *testing.T) {
	Need(t)
	type seen struct {
		links []net.Interface
		err   error
	}
	result := make(chan seen)
	go func() {
		runtime.LockOSThread() // never unlocked: see Check
		if err := syscall.Unshare(syscall.CLONE_NEWNET); err != nil {
			result <- seen{nil, err}
			return
		}
		links, err := net.Interfaces()
		result <- seen{links, err}
	}()
	got := <-result
	if got.err != nil || len(got.links) != 1 || got.links[0].Flags&net.FlagLoopback == 0 ||
		got.links[0].Flags&net.FlagUp != 0 {
		t.Errorf("interfaces = %+v, %v, want lo alone and down", got.links, got.err)
	}
}
