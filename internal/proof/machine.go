package proof

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// A Machine has the facts about a machine on which figures depend.
type Machine struct {
	CPU    string
	Cores  int // that this process may use
	Kernel string
	System string // operating system's name
	Go     string
}

// ThisMachine returns the facts about this machine. A fact that cannot be read is "unknown".
func ThisMachine() Machine {
	return Machine{
		CPU:    field("/proc/cpuinfo", "model name", ":"),
		Cores:  runtime.NumCPU(),
		Kernel: line("/proc/sys/kernel/osrelease"),
		System: strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`),
		Go:     runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
	}
}

const unknown = "unknown"

// field returns the value of the first line "key separator value" in a file.
func field(name, key, separator string) string {
	file, err := os.Open(name)
	if err != nil {
		return unknown
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		k, v, ok := strings.Cut(lines.Text(), separator)
		if ok && strings.TrimSpace(k) == key {
			return strings.TrimSpace(v)
		}
	}
	return unknown
}

func line(name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		return unknown
	}
	return strings.TrimSpace(string(text))
}
