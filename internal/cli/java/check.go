package java

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func newCheck() *cobra.Command {
	var agent, config string
	cmd := &cobra.Command{
		Use:   "check [PID|JAR...]",
		Short: "Say what the Java agent would weave into a program",
		Long: `Say what the Java agent would weave into a program, and change nothing. The program
is a running process, or jars and directories with jars. For a process, the command reads only the
class path in its command line or environment, and no jars that were sent to the process later.

If the process already has the agent, the command uses that agent and its configuration. Otherwise
it looks for cloudprofiler.jar beside cprof, in /opt, and where Maven builds it in the present
directory. Without a program, the command only checks the file that --config names.

Exit code 3: an engine, or a joinpoint of the configuration, would be left alone.`,
		Example: `  cprof java check 4711
  cprof java check /opt/flink/lib
  cprof java check --agent ~/cloudprofiler.jar --config cloudprofiler.yaml job.jar`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && config == "" {
				return command.Usagef("name a program, or a file with --config")
			}
			return check(cmd.Context(), system(), request{agent, config, args},
				cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&agent, "agent", "", "the agent's jar (looked for if not given)")
	cmd.Flags().StringVar(&config, "config", "",
		"the agent's configuration (none if not given, or that of the process)")
	return cmd
}

// CheckSettings returns why a configuration of the Java agent cannot be used.
func CheckSettings(ctx context.Context, path string) error {
	return check(ctx, system(), request{config: path}, io.Discard)
}

// A request has the values of the command line. If a text is empty, the command finds its value
// itself.
type request struct {
	agent, config string
	programs      []string
}

func check(ctx context.Context, m machine, r request, out io.Writer) error {
	for _, program := range r.programs {
		if !isNumber(program) {
			continue
		}
		if len(r.programs) > 1 {
			return command.Usagef("check process %s alone: it has a class path of its own", program)
		}
		p, err := m.process(program)
		if err != nil {
			return err
		}
		if r.agent == "" {
			r.agent = p.agent
		}
		if r.config == "" {
			r.config = p.config
		}
	}
	jar, err := m.jar(r.agent)
	if err != nil {
		return err
	}
	java, err := m.java(strings.Join(r.programs[:min(1, len(r.programs))], ""))
	if err != nil {
		return err
	}
	args := []string{"-Xmx256m", "-jar", jar}
	if r.config != "" {
		args = append(args, "--config", r.config)
	}
	run := exec.CommandContext(ctx, java, append(args, r.programs...)...)
	var errs bytes.Buffer
	run.Stdout, run.Stderr = out, &errs
	return answer(run.Run(), java, jar, errs.String())
}

// answer turns the exit code of the jar's check into an error of this command. The jar and cprof
// give the same meanings to exit codes.
func answer(err error, java, jar, said string) error {
	said = strings.TrimSpace(said)
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case strings.Contains(said, "UnsupportedClassVersionError"):
		return fmt.Errorf("check with %q: it is older than Java 17: name a newer Java in JAVA_HOME",
			java)
	case strings.Contains(said, "no main manifest attribute"):
		return fmt.Errorf("check with %q: it is not the agent's jar: name that with --agent", jar)
	case errors.As(err, &exit) && exit.ExitCode() == command.Partial:
		return fmt.Errorf("parts would be left alone, see above: %w", command.ErrPartial)
	case strings.HasPrefix(said, "check: "):
		return errors.New(said)
	default:
		return fmt.Errorf("check with %q: %w\n%s", jar, err, said)
	}
}
