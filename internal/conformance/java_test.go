package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/internal/jvm"
)

// javaVariable says that the Java library takes part. "make java-sdk" sets it: without Java, the
// tests then fail. A plain "go test" does not need Java.
const javaVariable = "CLOUDPROFILER_TEST_JAVA"

// releases lists the Java releases that take part.
var releases []int

// withJava runs the tests, with a writer for each Java that is here if Java takes part.
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
	kit, err := jvm.Build(dir)
	if err != nil {
		return 1, err
	}
	if kit.Missing != "" {
		fmt.Fprintln(os.Stderr, kit.Missing)
	}
	for _, java := range kit.Javas {
		releases = append(releases, java.Release)
		writers[javaName(java.Release)] = func(testing.TB) *exec.Cmd {
			cmd := kit.Command(java, "Writer")
			cmd.Env = os.Environ()
			return cmd
		}
	}
	return run(), nil
}

func javaName(release int) string { return fmt.Sprintf("java %d", release) }

// eachJava runs a test for each Java from a release on.
func eachJava(t *testing.T, from int, test func(t *testing.T, language string)) {
	if os.Getenv(javaVariable) == "" {
		t.Skipf("%s is not set: make java-sdk runs this test", javaVariable)
	}
	tested := false
	for _, release := range releases {
		if release >= from {
			tested = true
			t.Run(javaName(release), func(t *testing.T) { test(t, javaName(release)) })
		}
	}
	if !tested {
		t.Fatalf("no Java from %d on is here", from)
	}
}

// A shutdown hook may log, and nothing needs to be closed.
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

// If one thread closes a channel while another logs to it, the log has the first events.
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
