package java

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// agentJar is the name of the agent's jar, as Maven builds it.
const agentJar = "cloudprofiler.jar"

// A machine says where to look for Java, for the agent's jar, and for processes.
type machine struct {
	proc     string   // where the kernel shows processes
	javaHome string   // may be empty
	jars     []string // files that may be the agent's jar, the best first
}

func system() machine {
	m := machine{proc: "/proc", javaHome: os.Getenv("JAVA_HOME")}
	if own, err := os.Executable(); err == nil {
		m.jars = append(m.jars, filepath.Join(filepath.Dir(own), agentJar))
	}
	m.jars = append(m.jars, filepath.Join("/opt", agentJar),
		filepath.Join("sdk", "java", "cloudprofiler-javaagent", "target", agentJar))
	return m
}

// A process is what a running program's command line says about the agent.
type process struct {
	agent, config string
}

// maxCommandLine is the largest size, in bytes, of a process's command line that is read, and also
// of its environment.
const maxCommandLine = 8 << 20

// process looks at a running process.
func (m machine) process(number string) (process, error) {
	dir := filepath.Join(m.proc, number)
	line, err := plainfile.Read(filepath.Join(dir, "cmdline"), maxCommandLine)
	if errors.Is(err, fs.ErrNotExist) {
		return process{}, fmt.Errorf("read process %s: there is none with this number: "+
			"see jps, or ps -C java", number)
	}
	if err == nil {
		// If this user may not read the process's environment, say so now: the jar reads it later
		// to find the class path.
		_, err = plainfile.Read(filepath.Join(dir, "environ"), maxCommandLine)
	}
	if errors.Is(err, fs.ErrPermission) {
		return process{}, fmt.Errorf("read process %s: it is a process of %s: run this command "+
			"as that user, or as root", number, owner(dir))
	}
	if err != nil {
		return process{}, fmt.Errorf("read process %s: %w", number, err)
	}
	cwd, err := os.Readlink(filepath.Join(dir, "cwd"))
	if err != nil {
		return process{}, fmt.Errorf("read process %s: %w", number, err)
	}
	return agentOf(strings.Split(string(line), "\x00"), cwd), nil
}

// agentOf finds the agent's jar and its configuration in a command line. It ignores a jar that this
// machine does not have.
func agentOf(words []string, cwd string) (p process) {
	absolute := func(path string) string {
		if path == "" || filepath.IsAbs(path) {
			return path
		}
		return filepath.Join(cwd, path)
	}
	for _, word := range words {
		option, isAgent := strings.CutPrefix(word, "-javaagent:")
		jar, config, _ := strings.Cut(option, "=")
		if !isAgent || !strings.HasPrefix(filepath.Base(jar), "cloudprofiler") {
			continue
		}
		// The process may be in a container with files of its own.
		if jar = absolute(jar); isFile(jar) {
			return process{agent: jar, config: absolute(config)}
		}
	}
	return process{}
}

func owner(dir string) string {
	info, err := os.Stat(dir)
	if err != nil {
		return "another user"
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "another user"
	}
	return "user " + plainfile.UserName(stat.Uid)
}

// jar returns the path of the agent's jar. If the user gave a path (given is not empty), jar
// returns that path. Otherwise it returns the first path in the list m.jars at which there is a
// file.
func (m machine) jar(given string) (string, error) {
	if given != "" {
		if !isFile(given) {
			return "", fmt.Errorf("find the agent: %q is not a file", given)
		}
		return given, nil
	}
	for _, jar := range m.jars {
		if isFile(jar) {
			return jar, nil
		}
	}
	return "", fmt.Errorf("find the agent: no %q: put it there, or name it with cprof java "+
		"check --agent; to build it, see docs/java-agent.md", m.jars)
}

// java returns the path of a java: the one of JAVA_HOME, the one on the PATH, or the one that runs
// the program.
func (m machine) java(program string) (string, error) {
	if m.javaHome != "" {
		java := filepath.Join(m.javaHome, "bin", "java")
		if !isFile(java) {
			return "", fmt.Errorf("find Java: JAVA_HOME is %q, and has no bin/java: name "+
				"another directory there", m.javaHome)
		}
		return java, nil
	}
	if java, err := exec.LookPath("java"); err == nil {
		return java, nil
	}
	if isNumber(program) {
		exe, err := os.Readlink(filepath.Join(m.proc, program, "exe"))
		if err == nil && filepath.Base(exe) == "java" && isFile(exe) {
			return exe, nil
		}
	}
	return "", errors.New("find Java: no java on the PATH: install Java 17 or later, or name its " +
		"directory in JAVA_HOME")
}

func isNumber(word string) bool {
	_, err := strconv.ParseUint(word, 10, 32)
	return err == nil
}

func isFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}
