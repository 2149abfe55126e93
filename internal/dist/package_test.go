package dist

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
)

// Each file that a package contains comes from the archive or from the repository.
func TestPackagesContainWhatIsThere(t *testing.T) {
	dir := archive(t)
	text := read(t, "../../packaging/package/nfpm.yaml")
	sources := regexp.MustCompile(`src: "?([^",]+)"?,`).FindAllStringSubmatch(text, -1)
	if len(sources) < 10 {
		t.Fatalf("%d sources: the test does not see them", len(sources))
	}
	for _, match := range sources {
		path, inArchive := strings.CutPrefix(match[1], "${DIST}/")
		if inArchive {
			path = filepath.Join(dir, path)
		} else {
			path = filepath.Join("../..", path)
		}
		if found, err := filepath.Glob(path); err != nil || len(found) == 0 {
			t.Errorf("%s is not there", match[1])
		}
	}
	for _, file := range []string{"handlers", "job", "virtual-node", "java-agent",
		"values.schema"} {
		if !exists(dir, "schemas", file+".json") {
			t.Errorf("there is no schema %s.json", file)
		}
	}
	for _, c := range shipped(t) {
		section := "8"
		switch c {
		case "cprof":
			section = "1"
		case "cprof-question": // cprof starts it
			continue
		}
		if !exists(dir, "man", c+"."+section+".gz") {
			t.Errorf("%s has no manual page", c)
		}
		if c != "cprof" && !strings.Contains(read(t, dir, "schemas", c+".json"), `"node"`) &&
			c != "tsc-server" {
			t.Errorf("the schema of %s has no key \"node\"", c)
		}
	}
}

// A debian is a Debian root with the files of this machine. If a command changes a file, the new
// file is stored in the directory changes, and this machine's file stays as it was.
type debian struct {
	t             *testing.T
	root, changes string
}

func newDebian(t *testing.T) *debian {
	t.Helper()
	dir := t.TempDir()
	mount := func(args ...string) {
		t.Helper()
		if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
			t.Fatalf("mount %v: %v: %s", args, err, out)
		}
	}
	mount("-t", "tmpfs", "tmpfs", dir)
	t.Cleanup(func() { exec.Command("umount", "--lazy", dir).Run() })
	d := &debian{t, filepath.Join(dir, "root"), filepath.Join(dir, "changes")}
	for _, sub := range []string{d.root, d.changes, filepath.Join(dir, "work")} {
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	mount("-t", "overlay", "overlay", "-o", fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s",
		d.changes, filepath.Join(dir, "work")), d.root)
	t.Cleanup(func() { exec.Command("umount", "--lazy", d.root).Run() })
	mount("-t", "proc", "proc", filepath.Join(d.root, "proc"))
	mount("-t", "tmpfs", "tmpfs", filepath.Join(d.root, "dev/shm"))
	mount("-t", "tmpfs", "tmpfs", filepath.Join(d.root, "run"))
	t.Cleanup(func() {
		for _, at := range []string{"proc", "dev/shm", "run"} {
			exec.Command("umount", "--lazy", filepath.Join(d.root, at)).Run()
		}
	})
	for _, device := range []string{"null", "urandom"} {
		to := filepath.Join(d.root, "dev", device)
		if err := os.WriteFile(to, nil, 0o666); err != nil && !os.IsPermission(err) {
			t.Fatal(err)
		}
		mount("--bind", "/dev/"+device, to)
		t.Cleanup(func() { exec.Command("umount", "--lazy", to).Run() })
	}
	return d
}

// run runs a command in the root, and returns what it prints.
func (d *debian) run(name string, args ...string) string {
	d.t.Helper()
	out, err := d.try(name, args...)
	if err != nil {
		d.t.Errorf("%s %v: %v: %s", name, args, err, out)
	}
	return out
}

func (d *debian) try(name string, args ...string) (string, error) {
	cmd := exec.Command("chroot", append([]string{d.root, name}, args...)...)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LC_ALL=C"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// left lists the files that commands added or changed in the root. It leaves out logs, dpkg's lists
// and temporary data.
func (d *debian) left() (paths []string) {
	d.t.Helper()
	out, err := exec.Command("find", d.changes, "!", "-type", "d", "!", "-type", "c", "-printf",
		"/%P\n").Output()
	if err != nil {
		d.t.Fatal(err)
	}
	usual := regexp.MustCompile(`^/(var/(lib/(dpkg|rpm|systemd)|log|cache)|dev|proc|run|tmp|` +
		`root)/|^/etc/(passwd|group|shadow|gshadow|subuid|subgid|ld.so.cache)-?$|` +
		`^/etc/\.pwd\.lock$`)
	for line := range strings.Lines(string(out)) {
		if path := strings.TrimSuffix(line, "\n"); !usual.MatchString(path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// packagesOf makes packages of this archive with the given version. It returns the path of each, by
// its kind.
func packagesOf(t *testing.T, version string) map[string]string {
	t.Helper()
	dir, to, paths := archive(t), t.TempDir(), map[string]string{}
	cmd := exec.Command("../../scripts/packages", dir, to)
	cmd.Env = append(os.Environ(), "CLOUDPROFILER_PACKAGE_VERSION="+version)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("scripts/packages: %v: %s", err, out)
	}
	for _, name := range names(t, to) {
		paths[strings.TrimPrefix(filepath.Ext(name), ".")] = filepath.Join(to, name)
	}
	if len(paths) != 2 || paths["deb"] == "" || paths["rpm"] == "" {
		t.Fatalf("packages: %v", paths)
	}
	return paths
}

// buildFirst builds a program that logs.
func buildFirst(t *testing.T, to string) {
	t.Helper()
	if out, err := exec.Command("go", "build", "-o", to, "../../examples/first").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// TestBarPackage makes packages of this archive, installs the Debian package in a Debian root, and
// gets the first answer with one command. It upgrades the package from an earlier version, and
// removes the package: keys and data stay, and nothing else.
func TestBarPackage(t *testing.T) {
	if proof.Begin(t) != proof.Full {
		t.Skip("making packages takes minutes: make prove does it")
	}
	first_s := proof.Bar{Name: "from nothing to the first answer, by package", Limit: 60, Unit: "s",
		Timing: true}
	if err := privileged.Check(); err != nil {
		first_s.Absent = err.Error()
		proof.Check(t, first_s)
		return
	}
	earlier, later := packagesOf(t, "0.0.1"), packagesOf(t, "0.0.2")
	d := newDebian(t)
	d.run("rm", "-rf", "/var/lib/cloudprofiler", "/etc/cloudprofiler") // this machine may have both
	put(t, earlier["deb"], filepath.Join(d.root, "tmp"))
	put(t, later["deb"], filepath.Join(d.root, "tmp"))
	deb := func(version string) string { return "/tmp/cloudprofiler_" + version + "_amd64.deb" }
	buildFirst(t, filepath.Join(d.root, "tmp/first"))

	begun := time.Now()
	d.run("dpkg", "--install", deb("0.0.1"))
	answer := d.run("sh", "-c",
		"cd /tmp && cprof record --no-capture --run r ./first || test $? = 3")
	took := time.Since(begun).Seconds()
	if !strings.Contains(answer, "10000 tuples") {
		t.Errorf("the first answer is %s", answer)
	}

	d.run("sh", "-c", "cd /etc/cloudprofiler && cprof keys server && echo '# mine' >>cp-agent.yaml")
	d.run("dpkg", "--install", deb("0.0.2"))
	if status := d.run("dpkg", "--status", "cloudprofiler"); !strings.Contains(status, "0.0.2") {
		t.Errorf("after the upgrade: %s", status)
	}
	if !strings.Contains(d.run("cat", "/etc/cloudprofiler/cp-agent.yaml"), "# mine") {
		t.Error("the upgrade replaced a file that the user changed")
	}
	if out := d.run("getent", "passwd", "cloudprofiler"); !strings.Contains(out, "/var/lib/cloud") {
		t.Errorf("the user is %q", out)
	}
	d.run("sh", "-c", "cp-agent --config /etc/cloudprofiler/cp-agent.yaml --check")
	var words bytes.Buffer
	fmt.Fprint(&words, d.run("sh", "-c", "zcat /usr/share/man/man1/cprof.1.gz"))
	if !strings.Contains(words.String(), "cprof record") {
		t.Error("the manual page of cprof does not explain cprof record")
	}

	d.run("dpkg", "--purge", "cloudprofiler")
	if left := d.left(); !slices.Equal(left, []string{
		"/etc/cloudprofiler/server.public", "/etc/cloudprofiler/server.secret",
	}) {
		t.Errorf("left: %v", left)
	}
	d.run("sh", "-c", "rm -r /etc/cloudprofiler")
	if out, err := d.try("getent", "passwd", "cloudprofiler"); err == nil {
		t.Errorf("the user is left: %s", out)
	}
	first_s.Figure = took
	proof.Check(t, first_s)
}
