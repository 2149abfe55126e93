package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/jvm"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// javaVariable is the environment variable with which the Java library takes part. "make java-sdk"
// sets it. If it is set but there is no Java, the tests fail. A plain "go test" does not need Java.
const javaVariable = "CLOUDPROFILER_TEST_JAVA"

// kit has the Javas that take part. Without Java it is nil.
var kit *jvm.Kit

// withJava runs the tests. If Java takes part, each Java of this machine becomes a writer first.
func withJava(run func() int) (code int, err error) {
	if os.Getenv(javaVariable) == "" {
		return run(), nil
	}
	dir, err := os.MkdirTemp("", "cloudprofiler-java")
	if err != nil {
		return 1, err
	}
	defer os.RemoveAll(dir)
	if err := jvm.Read(); err != nil {
		return 1, err
	}
	if kit, err = jvm.Build(dir); err != nil {
		return 1, err
	}
	if kit.Missing != "" {
		fmt.Fprintln(os.Stderr, kit.Missing)
	}
	for _, java := range kit.Javas {
		writers[javaName(java.Release)] = func(testing.TB) *exec.Cmd {
			cmd := kit.Command(java, "Writer")
			cmd.Env = os.Environ()
			return cmd
		}
	}
	return run(), nil
}

func javaName(release int) string { return fmt.Sprintf("java %d", release) }

// eachJava runs a test for each Java of at least the given release.
func eachJava(t *testing.T, from int, test func(t *testing.T, language string)) {
	if kit == nil {
		t.Skipf("%s is not set: make java-sdk runs this test", javaVariable)
	}
	tested := false
	for _, java := range kit.Javas {
		if name := javaName(java.Release); java.Release >= from {
			tested = true
			t.Run(name, func(t *testing.T) { test(t, name) })
		}
	}
	if !tested {
		t.Fatalf("no Java from %d on is here", from)
	}
}

// A shutdown hook of Java may log, and a program need not close its channels.
func TestJavaLogsInShutdownHooks(t *testing.T) {
	eachJava(t, 17, func(t *testing.T, language string) {
		s := newScene(t, language)
		s.drain()
		s.do("open one a/x id 0 0 0 0 - - 0")
		s.do("log 0 10")
		s.do("exit 10 1000")
		s.cmd.Wait()
		if got := s.end(); !slices.Equal(got.IDs, ids(0, 1010, 1)) {
			t.Errorf("%d ids: %d", len(got.IDs), got.IDs)
		}
	})
}

// Virtual threads may share a channel.
func TestJavaLogsInVirtualThreads(t *testing.T) {
	eachJava(t, 21, func(t *testing.T, language string) {
		s := newScene(t, language)
		s.threads = true
		s.drain()
		s.do("open shared a/x id 0 0 0 0 - - 65536")
		s.do("virtual 0 20000")
		s.do("close")
		got := s.end()
		slices.Sort(got.IDs)
		if !slices.Equal(got.IDs, ids(0, 20000, 1)) {
			t.Errorf("%d ids", len(got.IDs))
		}
	})
}

// If one thread closes a channel while another logs to it, the log has the first of the events and
// not the last.
func TestJavaClosesWhileItLogs(t *testing.T) {
	eachJava(t, 17, func(t *testing.T, language string) {
		for _, kind := range []string{"one", "shared"} {
			s := newScene(t, language)
			s.drain()
			s.do("open %s a/x id 0 0 0 0 drop - 0", kind)
			s.do("raced 0 300000")
			s.do("log 0 10")
			s.says("0", "dropped")
			got := s.end()
			slices.Sort(got.IDs)
			if n := uint64(len(got.IDs)); n > 0 && got.IDs[0] != 0 || n >= 300000 {
				t.Errorf("%s: %d ids, from %d", kind, n, got.IDs[:min(1, n)])
			}
		}
	})
}

// The examples in docs/java.md compile, open the channels that they name, and print nothing.
func TestExamplesOfTheJavaPage(t *testing.T) {
	if kit == nil {
		t.Skipf("%s is not set: make java-sdk runs this test", javaVariable)
	}
	var imports, body strings.Builder
	for _, example := range examples(t, "docs/java.md", "java") {
		for line := range strings.Lines(example + "\n") {
			if strings.HasPrefix(line, "import ") {
				imports.WriteString(line)
			} else {
				body.WriteString(line)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "Page.java")
	text := fmt.Sprintf("%s\nclass Page {\nrecord Tuple(long id) {}\n"+
		"public static void main(String[] args) {\nTuple tuple = new Tuple(1);\n%s}\n}\n",
		&imports, &body)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	rings := t.TempDir()
	run := kit.Source(kit.Javas[0], file)
	run.Env = append(os.Environ(), ring.DirectoryVariable+"="+rings)
	if out, err := run.CombinedOutput(); err != nil || len(out) > 0 {
		t.Fatalf("%v: it says %s", err, out)
	}
	files, err := ring.Files(rings)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range files {
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		names = append(names, name)
	}
	if want := []string{"parser#0~end", "parser#0~start"}; !slices.Equal(names, want) {
		t.Errorf("rings %q, want %q", names, want)
	}
}
