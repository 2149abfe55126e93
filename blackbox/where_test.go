package blackbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	someID   = "3fca5e1d0f8c4b7a9e6d2c1b0a99887766554433221100ffeeddccbbaa998877"
	somePod  = "8a6f1c2e-0d4b-4a57-9c1e-2b7f63d5e0aa"
	someHash = "0123456789abcdef0123456789abcdef"
)

// The usual forms of the names of cgroups say where a process runs.
func TestPlaceOf(t *testing.T) {
	under := strings.ReplaceAll(somePod, "-", "_")
	for path, want := range map[string]Place{
		"": {}, "/": {}, "/user.slice": {},
		"/system.slice/nginx.service":                {Unit: "nginx.service"},
		"/user.slice/user-0.slice/session-1.scope":   {Unit: "session-1.scope"},
		"/system.slice/docker-" + someID + ".scope":  {Runtime: "docker", Container: someID},
		"/docker/" + someID:                          {Runtime: "docker", Container: someID},
		"/default/" + someID:                         {Runtime: "container", Container: someID},
		"/ecs/0f/" + someID:                          {Runtime: "container", Container: someID},
		"/machine.slice/libpod-" + someID + ".scope": {Runtime: "podman", Container: someID},
		"/docker/" + someID + "/system.slice/cron.service": {Runtime: "docker",
			Container: someID},
		"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + under +
			".slice/cri-containerd-" + someID + ".scope": {Runtime: "containerd",
			Container: someID, Pod: somePod},
		"/kubepods.slice/kubepods-pod" + under + ".slice/crio-" + someID + ".scope": {
			Runtime: "cri-o", Container: someID, Pod: somePod},
		"/kubepods/burstable/pod" + somePod + "/" + someID: {Runtime: "container",
			Container: someID, Pod: somePod},
		"/kubepods/besteffort/pod" + someHash + "/" + someID: {Runtime: "container",
			Container: someID, Pod: someHash},
		"/system.slice/containerd.service/kubepods-burstable-pod" + under +
			".slice:cri-containerd:" + someID: {Runtime: "containerd", Container: someID,
			Pod: somePod},
		"/system.slice/" + someID[:63] + ".service": {Unit: (someID[:63] + ".service")[:64]},
		"/podman/x": {},
	} {
		if diff := cmp.Diff(want, PlaceOf(path)); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

// If a process is in no group of version 2, GroupOf returns the longest path of its other groups.
func TestGroupOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cgroup")
	text := "4:memory:/docker/" + someID + "\n1:name=systemd:/x\nbad\n0::/\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := GroupOf(path); got != "/docker/"+someID {
		t.Errorf("%q", got)
	}
	if got := GroupOf(path + "x"); got != "" {
		t.Errorf("%q of a file that does not exist", got)
	}
}

func TestPodNames(t *testing.T) {
	p := PodNames{Dir: t.TempDir()}
	if got := p.Name(somePod); got != "" {
		t.Errorf("%q before there is a directory", got)
	}
	p.known = nil
	for _, name := range []string{"default_web-0_" + somePod, "other"} {
		if err := os.Mkdir(filepath.Join(p.Dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.Name(somePod); got != "default/web-0" {
		t.Errorf("%q", got)
	}
	if got := p.Name(""); got != "" {
		t.Errorf("%q of no pod", got)
	}
}
