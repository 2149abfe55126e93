package capture

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
)

const (
	someID  = "3fca5e1d0f8c4b7a9e6d2c1b0a99887766554433221100ffeeddccbbaa998877"
	somePod = "8a6f1c2e-0d4b-4a57-9c1e-2b7f63d5e0aa"
)

// The log says in which container a process runs, even if the process ends at once.
func TestPrivilegedPlaces(t *testing.T) {
	privileged.Need(t)
	root, err := cgroupRoot()
	if err != nil {
		t.Fatal(err)
	}
	outer := filepath.Join(root, "kubepods-burstable-pod"+
		strings.ReplaceAll(somePod, "-", "_")+".slice")
	inner := filepath.Join(outer, "cri-containerd-"+someID+".scope")
	if err := os.MkdirAll(inner, 0o755); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := os.Remove(inner); err != nil {
			t.Error(err)
		}
		if err := os.Remove(outer); err != nil {
			t.Error(err)
		}
	}()
	r := newRig(t, Options{})
	cmd := startSteps(t, "place")
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	moveInto(t, inner, cmd.Process.Pid)
	io.WriteString(in, "x")
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	got := r.endCapture(t).places[uint32(cmd.Process.Pid)]
	want := blackbox.Place{
		Process: uint32(cmd.Process.Pid), Runtime: "containerd", Container: someID, Pod: somePod,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
