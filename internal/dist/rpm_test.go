package dist

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// TestBarRPM installs the RPM package with rpm, in a Debian root, because no root of Fedora can be
// had here. It gets the first answer, upgrades the package from an earlier version, and removes the
// package: keys and changed configurations stay, and nothing else. The root's libraries are unknown
// to rpm, so the test only reads the names of what the package requires.
func TestBarRPM(t *testing.T) {
	if proof.Begin(t) != proof.Full {
		t.Skip("making packages takes minutes: make prove does it")
	}
	wrong := proof.Bar{Name: "steps of an RPM package's life that fail", Unit: "steps"}
	if err := privileged.Check(); err != nil {
		wrong.Absent = err.Error()
		proof.Check(t, wrong)
		return
	}
	d := newDebian(t)
	d.run("rm", "-rf", "/var/lib/cloudprofiler", "/etc/cloudprofiler") // this machine may have both
	out, err := d.try("apt-get", "install", "--yes", "--no-install-recommends", "rpm")
	if err != nil {
		wrong.Absent = "rpm cannot be installed: " + out
		proof.Check(t, wrong)
		return
	}
	step := func(ok bool, name, said string) {
		t.Helper()
		if !ok {
			wrong.Figure++
			t.Errorf("%s: %s", name, said)
		}
	}
	for _, version := range []string{"0.0.1", "0.0.2"} {
		put(t, packagesOf(t, version)["rpm"], filepath.Join(d.root, "tmp"))
	}
	buildFirst(t, filepath.Join(d.root, "tmp/first"))
	before := d.left()

	rpm := func(version string) string { return "/tmp/cloudprofiler-" + version + "-1.x86_64.rpm" }
	needs := d.run("rpm", "--query", "--package", "--requires", rpm("0.0.1"))
	step(strings.Contains(needs, "glibc\n") && strings.Contains(needs, "libzmq.so.5()(64bit)\n"),
		"what the package requires", needs)
	d.run("rpm", "--install", "--nodeps", rpm("0.0.1"))
	answer := d.run("sh", "-c",
		"cd /tmp && cprof record --no-capture --run r ./first || test $? = 3")
	step(strings.Contains(answer, "10000 tuples"), "the first answer", answer)

	d.run("sh", "-c", "cd /etc/cloudprofiler && cprof keys server && echo '# mine' >>cp-agent.yaml")
	d.run("rpm", "--upgrade", "--nodeps", rpm("0.0.2"))
	status := d.run("rpm", "--query", "cloudprofiler")
	step(strings.HasPrefix(status, "cloudprofiler-0.0.2-"), "upgrade", status)
	kept := d.run("cat", "/etc/cloudprofiler/cp-agent.yaml")
	step(strings.Contains(kept, "# mine"), "a changed file after the upgrade", kept)
	user := d.run("getent", "passwd", "cloudprofiler")
	step(strings.Contains(user, "/var/lib/cloud"), "the user after the upgrade", user)
	changed := d.run("sh", "-c", "rpm --verify --nodeps cloudprofiler || true")
	step(strings.Count(changed, "\n") == 1 && strings.Contains(changed, "cp-agent.yaml"),
		"files that differ from the package", changed)

	d.run("rpm", "--erase", "cloudprofiler")
	left := slices.DeleteFunc(d.left(), func(path string) bool {
		return slices.Contains(before, path)
	})
	step(slices.Equal(left, []string{"/etc/cloudprofiler/cp-agent.yaml.rpmsave",
		"/etc/cloudprofiler/server.public", "/etc/cloudprofiler/server.secret"}), "left",
		strings.Join(left, " "))
	said, err := d.try("getent", "passwd", "cloudprofiler")
	step(err != nil, "the user is left", said)
	if t.Failed() {
		wrong.Figure = max(wrong.Figure, 1)
	}
	proof.Check(t, wrong)
}
