package jvm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// A Java is a Java installation.
type Java struct {
	Release int // 17, 21 or 25
	home    string
}

// A Kit is what Java programs that log need: compiled classes and the native library.
type Kit struct {
	Javas   []Java // what scripts/jdks finds; the first one compiled the classes
	Missing string // what scripts/jdks says about installations that it does not find

	classes, library string
	repository       string
}

// root returns the root of this repository, which contains the working directory.
func root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "jdks")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("find scripts/jdks: run this in a checkout of the repository")
		}
		dir = filepath.Dir(dir)
	}
}

// Build finds Java and builds the SDK and its test programs into a directory.
func Build(dir string) (*Kit, error) {
	repository, err := root()
	if err != nil {
		return nil, err
	}
	var missing bytes.Buffer
	find := exec.Command(filepath.Join(repository, "scripts", "jdks"))
	find.Stderr = &missing
	list, err := find.Output()
	k := &Kit{Missing: strings.TrimSpace(missing.String()), repository: repository}
	if err != nil {
		return nil, fmt.Errorf("find Java: %s: %w", k.Missing, err)
	}
	for line := range strings.Lines(string(list)) {
		release, home, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(release)
		if err != nil {
			return nil, fmt.Errorf("find Java: line %q", line)
		}
		k.Javas = append(k.Javas, Java{n, home})
	}
	return k, k.build(filepath.Join(repository, "sdk", "java"), dir)
}

func (k *Kit) build(sdk, dir string) error {
	home := k.Javas[0].home
	native := filepath.Join(dir, "native")
	if out, err := exec.Command("make", "-C", filepath.Join(sdk, "cloudprofiler-native"), "host",
		"BUILD="+native, "JAVA_HOME="+home).CombinedOutput(); err != nil {
		return fmt.Errorf("build the native library: %w\n%s", err, out)
	}
	libraries, err := filepath.Glob(filepath.Join(native, "*", "*.so"))
	if err != nil || len(libraries) != 1 {
		return fmt.Errorf("build the native library: it is %q, %w", libraries, err)
	}
	k.library = libraries[0]
	k.classes = filepath.Join(dir, "classes")
	const own = "src/main/java/io/github/cloudprofiler"
	const programs = "src/test/java/io/github/cloudprofiler/programs"
	var all []string
	for _, folder := range []string{own, programs} {
		sources, err := filepath.Glob(filepath.Join(sdk, "cloudprofiler", folder, "*.java"))
		if err != nil {
			return err
		}
		all = append(all, sources...)
	}
	args := append([]string{"--release", "17", "-encoding", "UTF-8", "-Xlint:all", "-Werror",
		"-d", k.classes}, all...)
	if out, err := exec.Command(filepath.Join(home, "bin", "javac"),
		args...).CombinedOutput(); err != nil {
		return fmt.Errorf("compile the Java SDK: %w\n%s", err, out)
	}
	return nil
}

// maxSource is the largest size of a source file.
const maxSource = 1 << 20

// Read reads every source of the Java SDK, so that the go command runs a test again after a source
// has changed. Otherwise the go command would reuse the test's earlier result.
func Read() error {
	repository, err := root()
	if err != nil {
		return err
	}
	for _, folder := range []string{"sdk/java", "sdk/c"} {
		err := filepath.WalkDir(filepath.Join(repository, folder),
			func(path string, e fs.DirEntry, err error) error {
				if err == nil && e.IsDir() && e.Name() == "target" {
					return fs.SkipDir // what Maven has built
				}
				if err == nil && e.Type().IsRegular() {
					_, err = plainfile.Read(path, maxSource)
				}
				return err
			})
		if err != nil {
			return err
		}
	}
	return nil
}

// Command returns a command that runs one of the test programs, such as "Writer".
func (k *Kit) Command(java Java, program string, args ...string) *exec.Cmd {
	return k.run(java, append([]string{"io.github.cloudprofiler.programs." + program}, args...)...)
}

// Pauses builds, in a directory, an agent that logs only pauses. It returns the flag that makes a
// JVM load this agent. The agent makes its ring in the directory rings.
func (k *Kit) Pauses(dir, rings string) (flag string, err error) {
	sdk := filepath.Join(k.repository, "sdk", "java")
	agent := filepath.Join(sdk, "cloudprofiler-javaagent", "src")
	classes, jar := filepath.Join(dir, "agent"), filepath.Join(dir, "agent.jar")
	main := filepath.Join(agent, "test", "java", "io", "github", "cloudprofiler", "agent",
		"PausesAlone.java")
	manifest := filepath.Join(dir, "manifest")
	if err := os.WriteFile(manifest,
		[]byte("Premain-Class: io.github.cloudprofiler.agent.PausesAlone\n"), 0o600); err != nil {
		return "", err
	}
	for _, c := range [][]string{
		{"javac", "--release", "17", "-encoding", "UTF-8", "-cp", k.classes, "-sourcepath",
			filepath.Join(agent, "main", "java"), "-d", classes, main},
		{"jar", "cfm", jar, manifest, "-C", classes, "."},
	} {
		if out, err := exec.Command(filepath.Join(k.Javas[0].home, "bin", c[0]),
			c[1:]...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("build an agent for pauses: %w\n%s", err, out)
		}
	}
	return "-javaagent:" + jar + "=" + rings, nil
}

// RecordCost compiles the program that measures what the agent adds to a record of an engine. The
// function command that it returns makes a command, which runs the program with the given Java. The
// program makes some of its rings in the directory drained, which the caller must drain.
func (k *Kit) RecordCost(dir, drained string) (command func(Java) *exec.Cmd, err error) {
	agent := filepath.Join(k.repository, "sdk", "java", "cloudprofiler-javaagent", "src")
	source := filepath.Join(agent, "bench", "java")
	const name = "io.github.cloudprofiler.agent.advice.RecordCost"
	classes := filepath.Join(dir, "record-cost")
	c := exec.Command(filepath.Join(k.Javas[0].home, "bin", "javac"), "--release", "17",
		"-encoding", "UTF-8", "-cp", k.classes,
		"-sourcepath", filepath.Join(agent, "main", "java")+":"+source, "-d", classes,
		filepath.Join(source, strings.ReplaceAll(name, ".", "/")+".java"))
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("compile %s: %w\n%s", name, err, out)
	}
	return func(java Java) *exec.Cmd {
		return k.run(java, "-cp", k.classes+":"+classes, name, drained)
	}, nil
}

// AgentJar returns the path of the agent that Maven built, or "" if there is none.
func (k *Kit) AgentJar() string {
	jar := filepath.Join(k.repository, "sdk", "java", "cloudprofiler-javaagent", "target",
		"cloudprofiler.jar")
	if _, err := os.Stat(jar); err != nil {
		return ""
	}
	return jar
}

// Start returns a command that starts a JVM with a program that does nothing.
func (k *Kit) Start(java Java, flags ...string) *exec.Cmd {
	return k.With(java, flags, "Nothing")
}

// With returns a command that runs one of the test programs with flags of the JVM.
func (k *Kit) With(java Java, flags []string, program string, args ...string) *exec.Cmd {
	return k.run(java, slices.Concat(flags,
		[]string{"io.github.cloudprofiler.programs." + program}, args)...)
}

// Source returns a command that compiles and runs a file of Java source.
func (k *Kit) Source(java Java, file string) *exec.Cmd { return k.run(java, file) }

func (k *Kit) run(java Java, args ...string) *exec.Cmd {
	flags := []string{"-cp", k.classes, "-Dcloudprofiler.native=" + k.library}
	if java.Release > 17 {
		flags = append(flags, "--enable-native-access=ALL-UNNAMED") // it only silences a warning
	}
	return exec.Command(filepath.Join(java.home, "bin", "java"), append(flags, args...)...)
}

// C builds a test program of the C library into a directory, and returns a command that runs it.
func (k *Kit) C(dir, program string, args ...string) (*exec.Cmd, error) {
	path := filepath.Join(dir, program)
	if out, err := exec.Command("make", "-C", filepath.Join(k.repository, "sdk", "c"), "CC=gcc",
		"BUILD="+dir, path).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build %s in C: %w\n%s", program, err, out)
	}
	return exec.Command(path, args...), nil
}
