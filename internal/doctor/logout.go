package doctor

import (
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// lastSystemUser is the largest id of a system user. logind never removes a system user's shared
// memory.
const lastSystemUser = 999

// Logout reports whether systemd empties the directory of rings when this user's last session ends.
// Events that no drainer has taken from the rings by then are lost. The drainer's lock and the
// agent's socket are lost, too.
func (m Machine) Logout() host.Finding {
	f := host.Finding{Name: "logout", Verdict: host.Fit}
	below, err := filepath.Rel("/dev/shm", filepath.Clean(m.Rings))
	switch {
	case err != nil || below == ".." || strings.HasPrefix(below, "../"):
		f.Detail = m.Rings + " is not shared memory that systemd empties at a logout"
	case m.User.ID <= lastSystemUser:
		f.Detail = "systemd leaves the shared memory of system users alone"
	case !m.exists("run/systemd/users"):
		f.Detail = "no systemd-logind runs that could empty shared memory at a logout"
	case m.exists("var/lib/systemd/linger/" + m.User.Name):
		f.Detail = "user " + m.User.Name + " lingers: nothing ends at a logout"
	case !m.removesIPC():
		f.Detail = "RemoveIPC=no: systemd leaves shared memory alone at a logout"
	default:
		f.Verdict = host.Warning
		f.Detail = "systemd empties " + m.Rings + " when the last session of user " + m.User.Name +
			" ends (RemoveIPC=yes): what no agent has taken from the rings by then is lost"
		f.Remedy = "loginctl enable-linger " + m.User.Name + ", or RemoveIPC=no in " +
			"/etc/systemd/logind.conf," +
			" or name a memory file system outside /dev/shm in " + ring.DirectoryVariable
	}
	return f
}

func (m Machine) exists(name string) bool {
	_, err := fs.Stat(m.Root, name)
	return err == nil
}

// removesIPC reads logind's setting in the order in which logind reads it. First comes the first
// logind.conf that exists. Then come all drop-ins, in the order of their names, and each overrides
// what came before. If several directories have a drop-in with the same name, logind reads only the
// first one.
func (m Machine) removesIPC() bool {
	dirs := []string{"etc/systemd", "run/systemd", "usr/local/lib/systemd", "usr/lib/systemd"}
	removes := true // logind's default
	for _, dir := range dirs {
		if text, err := fs.ReadFile(m.Root, path.Join(dir, "logind.conf")); err == nil {
			removes = lastSetting(string(text), "RemoveIPC", removes)
			break
		}
	}
	dropIns := map[string]string{}
	for _, dir := range slices.Backward(dirs) {
		found, _ := fs.Glob(m.Root, path.Join(dir, "logind.conf.d", "*.conf"))
		for _, name := range found {
			dropIns[path.Base(name)] = name
		}
	}
	for _, base := range slices.Sorted(maps.Keys(dropIns)) {
		if text, err := fs.ReadFile(m.Root, dropIns[base]); err == nil {
			removes = lastSetting(string(text), "RemoveIPC", removes)
		}
	}
	return removes
}

// lastSetting returns the value that the last line with this key gives. If no line has the key, it
// returns the value that applied before (was).
func lastSetting(text, key string, was bool) bool {
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if !ok || strings.TrimSpace(name) != key {
			continue
		}
		switch strings.ToLower(strings.TrimSpace(value)) {
		case "1", "yes", "y", "true", "t", "on":
			was = true
		case "0", "no", "n", "false", "f", "off":
			was = false
		}
	}
	return was
}
