package testimony

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/internal/jvm"
)

// OnlyJava makes all programs Java programs, with this number of writers on the shared channel.
// They run on the Javas of this machine in turn. With Java programs, KillAtRandom kills a program
// only after one of its calls has returned, because a JVM takes long to start. OnlyJava returns the
// names of the Javas.
func (s *Stage) OnlyJava(writers int) (names string, err error) {
	s.t.Helper()
	kit, err := jvm.Build(s.t.TempDir())
	if err != nil {
		return "", err
	}
	s.only = true
	for _, java := range kit.Javas {
		names += fmt.Sprintf(" %d", java.Release)
		s.others = append(s.others, func(file string) *exec.Cmd {
			cmd := kit.Command(java, "Testimony", file, strconv.Itoa(writers))
			cmd.Env = append(os.Environ(), "CLOUDPROFILER_DIR="+s.Rings)
			return cmd
		})
	}
	return "Java" + names, nil
}
