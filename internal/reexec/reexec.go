package reexec

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// EmulatorVariable is the environment variable that contains the emulator's command line. It is not
// set if there is no emulator.
const EmulatorVariable = "CLOUDPROFILER_EMULATOR"

// Argv returns the command line that starts this program again.
func Argv(args ...string) ([]string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	argv := append(strings.Fields(os.Getenv(EmulatorVariable)), self)
	return append(argv, args...), nil
}

// Command returns a command that starts this program again. The caller must start it.
func Command(args ...string) (*exec.Cmd, error) {
	argv, err := Argv(args...)
	if err != nil {
		return nil, err
	}
	return exec.Command(argv[0], argv[1:]...), nil
}
