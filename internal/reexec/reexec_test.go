package reexec

import (
	"os"
	"strings"
	"testing"
)

const childVariable = "CLOUDPROFILER_REEXEC_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Stdout.WriteString("child of " + strings.Join(os.Args[1:], " "))
		return
	}
	os.Exit(m.Run())
}

func TestCommandIsThisProgram(t *testing.T) {
	t.Setenv(childVariable, "1")
	cmd, err := Command("a", "b")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.Output(); err != nil || string(out) != "child of a b" {
		t.Errorf("the child printed %q, %v", out, err)
	}
}

func TestEmulatorComesFirst(t *testing.T) {
	t.Setenv(EmulatorVariable, "env emulated=1")
	argv, err := Argv("a")
	if err != nil || len(argv) != 4 || argv[0] != "env" || argv[1] != "emulated=1" ||
		argv[3] != "a" {
		t.Errorf("Argv = %q, %v", argv, err)
	}
}
