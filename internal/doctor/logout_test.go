package doctor

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cloudprofiler/cloudprofiler/host"
)

// systemd removes a user's rings from /dev/shm when the user's last session ends, unless a setting
// prevents that.
func TestLogout(t *testing.T) {
	const here = "run/systemd/users/1000"
	tests := map[string]struct {
		files  map[string]string
		change func(*Machine)
		want   host.Verdict
		says   string
	}{
		"by default": {files: map[string]string{here: ""}, want: host.Warning,
			says: "what no agent has taken"},
		"as it is shipped": {files: map[string]string{here: "",
			"etc/systemd/logind.conf": "[Login]\n#RemoveIPC=no\n"},
			want: host.Warning, says: "/dev/shm/rings"},
		"without logind": {want: host.Fit, says: "no systemd-logind"},
		"switched off": {files: map[string]string{here: "",
			"etc/systemd/logind.conf": "[Login]\n RemoveIPC = No\n"},
			want: host.Fit, says: "RemoveIPC=no"},
		"switched off by the system": {files: map[string]string{here: "",
			"usr/lib/systemd/logind.conf": "RemoveIPC=no"},
			want: host.Fit},
		"the administrator's file hides the system's": {files: map[string]string{
			here: "", "usr/lib/systemd/logind.conf": "RemoveIPC=no", "etc/systemd/logind.conf": ""},
			want: host.Warning},
		"a drop-in over the file": {files: map[string]string{here: "",
			"etc/systemd/logind.conf":                   "RemoveIPC=yes",
			"usr/lib/systemd/logind.conf.d/50-ipc.conf": "RemoveIPC=off"}, want: host.Fit},
		"of two drop-ins the last name": {files: map[string]string{here: "",
			"run/systemd/logind.conf.d/60.conf": "RemoveIPC=1",
			"etc/systemd/logind.conf.d/50.conf": "RemoveIPC=0"},
			want: host.Warning},
		"of one name the administrator's": {files: map[string]string{here: "",
			"run/systemd/logind.conf.d/60.conf": "RemoveIPC=1",
			"etc/systemd/logind.conf.d/60.conf": "RemoveIPC=0"},
			want: host.Fit},
		"who lingers": {files: map[string]string{here: "", "var/lib/systemd/linger/ada": ""},
			want: host.Fit, says: "linger"},
		"another who lingers": {files: map[string]string{here: "",
			"var/lib/systemd/linger/bob": ""},
			want: host.Warning, says: "enable-linger ada"},
		"root": {files: map[string]string{here: ""},
			change: func(m *Machine) { m.User = User{0, "root"} },
			want:   host.Fit, says: "system users"},
		"a directory elsewhere": {files: map[string]string{here: ""},
			change: func(m *Machine) { m.Rings = "/dev/shm2/rings" },
			want:   host.Fit, says: "/dev/shm2/rings"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			m := faultlessMachine()
			root := fstest.MapFS{}
			for path, text := range tc.files {
				root[path] = &fstest.MapFile{Data: []byte(text)}
			}
			m.Root = root
			if tc.change != nil {
				tc.change(&m)
			}
			f := m.Logout()
			if f.Verdict != tc.want || !strings.Contains(f.Detail+f.Remedy, tc.says) {
				t.Errorf("%v: %s: %s", f.Verdict, f.Detail, f.Remedy)
			}
			if (f.Verdict == host.Warning) != (f.Remedy != "") {
				t.Errorf("%v with remedy %q", f.Verdict, f.Remedy)
			}
		})
	}
}
