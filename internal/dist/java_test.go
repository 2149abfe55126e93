package dist

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
)

// repository is where docs/java.md says that Maven finds the library for Java.
const repository = "java/repository/io/github/cloudprofiler"

// Maven finds what docs/java.md tells a program's pom.xml to name: a pom and a jar of each
// artifact, and the poms that these poms name as their parents.
func TestJavaLibraryIsWhereMavenLooks(t *testing.T) {
	dir := archive(t)
	page := read(t, dir, "docs/java.md")
	if !strings.Contains(page, "/java/repository</url>") {
		t.Error("docs/java.md does not name the repository")
	}
	field := func(text, name string) string {
		found := regexp.MustCompile("<" + name + ">([^<]+)</" + name + ">").FindStringSubmatch(text)
		if found == nil {
			return ""
		}
		return found[1]
	}
	dependencies := regexp.MustCompile(`(?s)<dependency>.*?</dependency>`).FindAllString(page, -1)
	if len(dependencies) != 2 {
		t.Fatalf("docs/java.md shows %d dependencies, want 2", len(dependencies))
	}
	for _, d := range dependencies {
		name, version := field(d, "artifactId"), field(d, "version")
		at := filepath.Join(repository, name, version)
		if classifier := field(d, "classifier"); classifier != "" {
			version += "-" + classifier
		}
		if jar := filepath.Join(at, name+"-"+version+".jar"); !exists(dir, jar) {
			t.Errorf("docs/java.md names %s, which is not there", jar)
		}
		pom := read(t, dir, at, name+"-"+field(d, "version")+".pom")
		parent := regexp.MustCompile(`(?s)<parent>.*?</parent>`).FindString(pom)
		name, version = field(parent, "artifactId"), field(parent, "version")
		of := filepath.Join(repository, name, version, name+"-"+version+".pom")
		if !exists(dir, of) {
			t.Errorf("%s has the parent %s, which is not there", at, of)
		}
	}
}

const javaProgram = `import io.github.cloudprofiler.Channel;

public class Program {
    public static void main(String[] args) {
        Channel start = Channel.open("parser#0/start");
        start.log(4711);
        start.close();
        if (start.error() != null) {
            System.out.println(start.error());
        }
    }
}
`

// A program logs with the jars of the archive, and cprof of the archive shows its ring.
func TestJavaLibraryLogs(t *testing.T) {
	dir, work := archive(t), t.TempDir()
	platforms := map[string]string{"amd64": "linux-x86_64", "arm64": "linux-aarch_64"}
	platform := platforms[runtime.GOARCH]
	jars, err := filepath.Glob(filepath.Join(dir, repository, "*", "*", "*.jar"))
	if err != nil {
		t.Fatal(err)
	}
	path := work
	for _, jar := range jars {
		if !strings.Contains(filepath.Base(jar), "-linux-") ||
			strings.HasSuffix(jar, "-"+platform+".jar") {
			path += ":" + jar
		}
	}
	source := filepath.Join(work, "Program.java")
	if err := os.WriteFile(source, []byte(javaProgram), 0o600); err != nil {
		t.Fatal(err)
	}
	rings := filepath.Join(work, "rings")
	java(t, rings, "javac", "-cp", path, "-d", work, source)
	if said := java(t, rings, "java", "-cp", path, "Program"); said != "" {
		t.Errorf("the program says %q", said)
	}
	dump := run(t, dir, "cprof", "ring", "dump", "--rings", rings, "parser#0/start")
	if !strings.Contains(dump, "4711") {
		t.Errorf("the ring has no event of the program: %s", dump)
	}
}

// The agent's jar says how to use it, and stays small.
func TestJavaAgentRuns(t *testing.T) {
	dir := archive(t)
	jar := filepath.Join(dir, "java", "cloudprofiler.jar")
	info, err := os.Stat(jar)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, at most 2 MB", info.Size())
	if info.Size() > 2_000_000 {
		t.Errorf("the agent has %d bytes, want at most 2 MB", info.Size())
	}
	said := java(t, t.TempDir(), "java", "-jar", jar, filepath.Dir(jar))
	if !strings.Contains(said, "flink: not on the class path") {
		t.Errorf("a check of jars without an engine says %q", said)
	}
}

// java runs a command of the JDK, and returns what it says.
func java(t *testing.T, rings, command string, args ...string) string {
	t.Helper()
	cmd := exec.Command(command, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "CLOUDPROFILER_DIR=" + rings}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%s %v: %v: %s", command, args, err, out)
	}
	return string(out)
}
