package proof

import (
	"bufio"
	"os"
	"runtime"
	"strings"
)

// A Machine contains facts about a machine that influence figures.
type Machine struct {
	CPU    string // as the CPU calls itself
	Core   Core
	Cores  int // number of cores that this process may use
	Kernel string
	System string // name of the operating system
	Go     string
}

// ThisMachine returns the facts about this machine. If a fact cannot be read, it is "unknown".
func ThisMachine() Machine {
	return Machine{
		CPU:    field("/proc/cpuinfo", "model name", ":"),
		Core:   thisCore(),
		Cores:  runtime.NumCPU(),
		Kernel: line("/proc/sys/kernel/osrelease"),
		System: strings.Trim(field("/etc/os-release", "PRETTY_NAME", "="), `"`),
		Go:     runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH,
	}
}

const unknown = "unknown"

// field returns the value in the first line of the form "key separator value" in a file.
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
