package fleet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// "cprof config check" finds out the kind of each file and checks the file as one of that kind. It
// names each file that cannot be used, and says why.
func TestConfigCheck(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string, mode os.FileMode) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if code, _, errs := cprof("keys", "server", "--dir", dir); code != command.Answered {
		t.Fatal(errs)
	}
	// This script takes the place of the daemon cp-agent. For a bad file it prints what is wrong.
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	put("cp-agent", "#!/bin/sh\ntest $3 = --check || exit 9\ngrep -q good \"$2\" && exit 0\n"+
		"printf 'cp-agent: line 1: no\\nline 2: nor\\nsee \"cp-agent --help\"\\n' >&2; exit 2\n",
		0o755)
	good, bad := put("cp-agent.yaml", "good", 0o600), put("cp-agent-2.yaml", "bad", 0o600)
	table := put("t.yaml", "version: 1\nrules: []\n", 0o600)
	badTable := put("u.yaml", "version: 1\nrules: [x]\n", 0o600)
	other := put("other.yaml", "good", 0o600)
	secret, public := filepath.Join(dir, "server.secret"), filepath.Join(dir, "server.public")

	code, out, errs := cprof("config", "check", good, table, secret, public)
	if code != command.Answered || strings.Count(out, "can be used\n") != 4 {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs = cprof("config", "check", bad, badTable, other, secret, good)
	if code != command.Failed || !strings.Contains(errs, "4 of 5 files cannot be used") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{
		"! " + bad + ": a configuration of cp-agent: line 1: no\n    line 2: nor\n",
		"! " + badTable + ": a handler table: ", "! " + other + ": a file: neither its name",
		"! " + secret + ": a secret key: ", good + ": a configuration of cp-agent, can be used\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if code, out, _ := cprof("config", "check", "--as", "cp-agent", other); code !=
		command.Answered || !strings.Contains(out, "configuration of cp-agent, can be used") {
		t.Errorf("--as: exit code %d\n%s", code, out)
	}
	if code, _, _ := cprof("config", "check", "--as", "nobody", other); code != command.Usage {
		t.Errorf("--as nobody: exit code %d", code)
	}
	for _, name := range []string{"s.conf", "v.json", "job.yaml", "cloudprofiler.yaml",
		"values.yaml"} {
		put(name, "unknown: 1\n", 0o600)
	}
	java := put("c.yaml", "# mine\nsets: [flink]\n", 0o600)
	work := put("d.yaml", "version: 1\noperators: [{name: a, tiem: 1us}]\n", 0o600)
	code, out, errs = cprof("config", "check", filepath.Join(dir, "s.conf"),
		filepath.Join(dir, "v.json"), filepath.Join(dir, "job.yaml"), work,
		filepath.Join(dir, "cloudprofiler.yaml"), java, filepath.Join(dir, "values.yaml"))
	if code != command.Failed || !strings.Contains(errs, "5 of 7 files cannot be used") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	for _, want := range []string{
		"s.conf: a simulation: line 7: no\n",
		"v.json: a virtual node: parse virtual node: line 1: invalid character",
		"job.yaml: a job: read job ", `line 2: an operator has the unknown key "tiem", did you ` +
			`mean "time"?`,
		"cloudprofiler.yaml: a configuration of the Java agent, can be used\n",
		java + ": a configuration of the Java agent, can be used\n",
		`values.yaml: values of the Helm chart: line 1: there is no key "unknown": use one of`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if code, out, _ := cprof("config", "check", "--as", "virtual-node", java); code !=
		command.Failed || !strings.Contains(out, ": a virtual node: ") {
		t.Errorf("--as virtual-node: exit code %d\n%s", code, out)
	}
	if files, err := configFiles(dir); err != nil || len(files) != 14 {
		t.Errorf("the directory has %v, %v", files, err)
	}
	if _, err := configFiles(t.TempDir()); err == nil {
		t.Error("an empty directory has configurations")
	}
}
