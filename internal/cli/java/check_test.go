package java

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// fake puts a "java" and a jar into new directories, and makes the command find them. The java
// runs a script.
func fake(t *testing.T, script string) (jar string) {
	t.Helper()
	home := t.TempDir()
	write(t, filepath.Join(home, "bin", "java"), "#!/bin/sh\n"+script)
	t.Setenv("JAVA_HOME", home)
	jar = filepath.Join(home, agentJar)
	write(t, jar, "")
	return jar
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
		t.Fatal(err)
	}
}

func of(words ...string) []string { return words }

func TestCheckPassesOn(t *testing.T) {
	jar := fake(t, `echo "$@"; exit 3`)
	code, out, errs := cprof("java", "check", "--agent", jar, "--config", "c.yaml", "a.jar", "b")
	want := "-Xmx256m -jar " + jar + " --config c.yaml a.jar b\n"
	if code != command.Partial || out != want || !strings.Contains(errs, "left alone") {
		t.Errorf("exit code %d, printed %q, want %q, and %q", code, out, want, errs)
	}
}

func TestCheckSaysWhatToDo(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		args   []string
		code   int
		want   string
	}{
		"fine":         {"exit 0", of("a"), command.Answered, ""},
		"refused":      {"echo check: there is no x >&2; exit 1", of("a"), 1, "there is no x"},
		"old Java":     {"echo UnsupportedClassVersionError >&2; exit 1", of("a"), 1, "Java 17"},
		"other jar":    {"echo no main manifest attribute >&2; exit 1", of("a"), 1, "--agent"},
		"breaks":       {"echo oh no >&2; exit 9", of("a"), 1, "oh no"},
		"no jar":       {"exit 0", of("--agent", "/nonexistent", "a"), 1, "not a file"},
		"no process":   {"exit 0", of("4294967295"), 1, "none with this number"},
		"two programs": {"exit 0", of("1", "a"), command.Usage, "alone"},
	} {
		jar := fake(t, tc.script)
		code, _, errs := cprof(append(of("java", "check", "--agent", jar), tc.args...)...)
		if code != tc.code || !strings.Contains(errs, tc.want) || tc.want == "" && errs != "" {
			t.Errorf("%s: exit code %d, %q; want %d, %q", name, code, errs, tc.code, tc.want)
		}
	}
	fake(t, `echo "$@" >&2; exit 1`)
	t.Chdir(t.TempDir())
	write(t, filepath.Join("sdk", "java", "cloudprofiler-javaagent", "target", agentJar), "")
	if err := CheckSettings(t.Context(), "c.yaml"); err == nil ||
		!strings.Contains(err.Error(), ".jar --config c.yaml") {
		t.Errorf("CheckSettings = %v", err)
	}
	if code, _, _ := cprof("java", "check"); code != command.Usage {
		t.Errorf("no argument: exit code %d", code)
	}
}

func TestJavaIsFound(t *testing.T) {
	home, bin := t.TempDir(), t.TempDir()
	write(t, filepath.Join(bin, "java"), "")
	t.Setenv("PATH", bin)
	if java, err := (machine{}).java("a.jar"); err != nil || java != filepath.Join(bin, "java") {
		t.Errorf("on the PATH: %q, %v", java, err)
	}
	_, err := machine{javaHome: home}.java("a.jar")
	if err == nil || !strings.Contains(err.Error(), home) {
		t.Errorf("wrong JAVA_HOME: %v", err)
	}
	write(t, filepath.Join(home, "bin", "java"), "")
	java, err := machine{javaHome: home}.java("a.jar")
	if want := filepath.Join(home, "bin", "java"); err != nil || java != want {
		t.Errorf("in JAVA_HOME: %q, %v", java, err)
	}

	t.Setenv("PATH", "")
	if _, err := (machine{}).java("7"); err == nil || !strings.Contains(err.Error(), "install") {
		t.Errorf("none: %v", err)
	}
	proc := t.TempDir()
	own := filepath.Join(proc, "7", "exe")
	if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(bin, "java"), own); err != nil {
		t.Fatal(err)
	}
	if java, err := (machine{proc: proc}).java("7"); err != nil ||
		java != filepath.Join(bin, "java") {
		t.Errorf("of a process: %q, %v", java, err)
	}
}

func TestAgentIsFound(t *testing.T) {
	dir := t.TempDir()
	second := filepath.Join(dir, "second.jar")
	m := machine{jars: []string{filepath.Join(dir, "first.jar"), second}}
	if _, err := m.jar(""); err == nil || !strings.Contains(err.Error(), "--agent") {
		t.Errorf("none: %v", err)
	}
	write(t, second, "")
	if jar, err := m.jar(""); err != nil || jar != second {
		t.Errorf("the second: %q, %v", jar, err)
	}
}

func TestAgentOfProcess(t *testing.T) {
	dir := t.TempDir()
	jar := filepath.Join(dir, "cloudprofiler-0.1.jar")
	write(t, jar, "")
	for words, want := range map[string]process{
		"java -javaagent:" + jar + " Main":                       {agent: jar},
		"java -javaagent:cloudprofiler-0.1.jar=c Main":           {jar, filepath.Join(dir, "c")},
		"java -javaagent:" + jar + "=/c.yaml Main":               {jar, "/c.yaml"},
		"java -javaagent:/other.jar=x -javaagent:" + jar + " M":  {agent: jar},
		"java -javaagent:/elsewhere/cloudprofiler.jar=/c.yaml M": {},
		"java Main": {},
	} {
		if got := agentOf(strings.Fields(words), dir); got != want {
			t.Errorf("%s: %+v, want %+v", words, got, want)
		}
	}
}

func TestOwnerIsNamed(t *testing.T) {
	if os.Geteuid() == 0 {
		// Root may read every process.
		if got := owner("/proc/1"); got != `user root` {
			t.Errorf("process 1 is of %s", got)
		}
		return
	}
	_, err := system().process("1")
	if err == nil || !strings.Contains(err.Error(), `user "root"`) {
		t.Errorf("another user's process: %v", err)
	}
}

// TestCheckOfRealPrograms asks the real jar about a running JVM and about engines. "make java-sdk"
// has built the jar, and copied the engines' jars into a directory beside it.
func TestCheckOfRealPrograms(t *testing.T) {
	if os.Getenv("CLOUDPROFILER_TEST_JAVA") == "" {
		t.Skip("CLOUDPROFILER_TEST_JAVA is not set: make java-sdk runs this test")
	}
	target := filepath.Join("..", "..", "..", "sdk", "java", "cloudprofiler-javaagent", "target")
	target, err := filepath.Abs(target)
	if err != nil {
		t.Fatal(err)
	}
	jar, engines := filepath.Join(target, agentJar), filepath.Join(target, "engines")
	kafka := filepath.Join(engines, "kafka-clients-4.1.1.jar")

	code, out, errs := cprof("java", "check", "--agent", jar, kafka)
	if code != command.Answered || !strings.Contains(out, "kafka 4.1.1: would be woven:") ||
		!strings.Contains(out, "flink: not on the class path") {
		t.Errorf("a jar: exit code %d\n%s%s", code, out, errs)
	}

	// This program waits until its input ends. Its class path has a jar, a directory's jars, and a
	// jar that does not exist, which the JVM ignores.
	dir := t.TempDir()
	source, lib := filepath.Join(dir, "Wait.java"), filepath.Join(dir, "lib")
	write(t, source, `class Wait { public static void main(String[] a) throws Exception {
		System.out.println("runs"); System.in.read(); } }`)
	write(t, filepath.Join(lib, "none"), "")
	storm := filepath.Join(engines, "storm-client-2.8.3.jar")
	if err := os.Symlink(storm, filepath.Join(lib, "storm.jar")); err != nil {
		t.Fatal(err)
	}
	java, err := system().java("")
	if err != nil {
		t.Fatal(err)
	}
	run := exec.Command(java, "-Xmx64m", "-cp", kafka+":missing.jar:lib/*", source)
	run.Dir, run.Stderr = dir, os.Stderr
	in, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	from, err := run.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(in.Close(), run.Wait()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := io.ReadFull(from, make([]byte, len("runs\n"))); err != nil {
		t.Fatal(err)
	}
	code, out, errs = cprof("java", "check", "--agent", jar, strconv.Itoa(run.Process.Pid))
	if code != command.Answered || !strings.Contains(out, "kafka 4.1.1: would be woven:") ||
		!strings.Contains(out, "storm 2.8.3: would be woven:") {
		t.Errorf("a process: exit code %d\n%s%s", code, out, errs)
	}
}
