package fleet

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// If no server runs, a command does not wait for one, and says what to do.
func TestNoServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close() // nobody listens there now
	for _, line := range []string{"nodes", "run list", "run start tuesday", "config get",
		"snapshot", "top --once"} {
		begun := time.Now()
		code, _, said := cprof(append(strings.Fields(line), "--server", address)...)
		if took := time.Since(begun); took > control.CallLimit/2 {
			t.Errorf("cprof %s: it took %v", line, took)
		}
		for _, want := range []string{"connection refused", "start tsc-server there", "--server"} {
			if code != command.Failed || !strings.Contains(said, want) {
				t.Errorf("cprof %s: exit code %d, no %q: %s", line, code, want, said)
			}
		}
	}
}

// A program listens at the server's address, and does not answer. The user hears early that the
// command waits, and at the end what to check.
func TestSilentServer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	flags := serverFlags{address: listener.Addr().String()}
	ctx, cancel := context.WithTimeout(t.Context(), 59*time.Minute)
	defer cancel()
	cmd, said := newNodes(), new(strings.Builder)
	cmd.SetErr(writerFunc(func(b []byte) (int, error) {
		cancel() // the user does not wait any longer
		return said.Write(b)
	}))
	link, err := flags.dial(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	err = link.Ask(ctx, "nodes", nil, nil)
	if err == nil || !strings.Contains(err.Error(), "--server-key right?") {
		t.Errorf("%v", err)
	}
	want := "waiting for an answer from the server at " + flags.address + ", for at most 58m"
	if !strings.HasPrefix(said.String(), want) || !strings.HasSuffix(said.String(), "s more\n") {
		t.Errorf("said %q, want %q", said, want)
	}
}

type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(b []byte) (int, error) { return w(b) }
