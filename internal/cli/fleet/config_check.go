package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/packaging"
	"github.com/cloudprofiler/cloudprofiler/placement/job"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// configDirectory is where the Debian and RPM packages put configurations, and where
// docs/operating.md tells users to put them.
const configDirectory = "/etc/cloudprofiler"

// A kind describes one kind of file that people write.
type kind struct {
	as, what string
	names    []string // the beginnings or endings of files' names
	keys     []string // keys, of which each such file has one at the beginning of a line
	check    Check
}

// kinds returns all kinds of files. A file is of the first kind whose method looksLike returns
// true.
func kinds(javaAgent, simulation Check) []kind {
	text := func(check func(text []byte, path string) error) Check {
		return func(_ context.Context, path string) error {
			text, err := plainfile.Read(path, maxTableBytes)
			if err != nil {
				return err
			}
			return check(text, path)
		}
	}
	all := []kind{{"handlers", "a handler table", []string{"handlers"}, []string{"rules"},
		text(func(text []byte, path string) error {
			_, err := handlertable.Parse(text, path)
			return err
		})}}
	for _, daemon := range []string{"cp-agent", "tsc-server", "tsc-client"} {
		all = append(all, kind{daemon, "a configuration of " + daemon, []string{daemon}, nil,
			func(_ context.Context, path string) error { return askDaemon(daemon, path) }})
	}
	return append(all,
		kind{"simulation", "a simulation", []string{".conf"}, nil, simulation},
		kind{"virtual-node", "a virtual node", []string{".json"}, nil,
			text(func(text []byte, _ string) error {
				_, err := vnode.ParseConfig(text)
				return err
			})},
		kind{"job", "a job", []string{"job"}, []string{"operators"}, text(job.Check)},
		kind{"java-agent", "a configuration of the Java agent", []string{"cloudprofiler"},
			[]string{"sets", "joinpoints"}, javaAgent},
		kind{"helm", "values of the Helm chart", []string{"values"}, []string{"image", "secrets"},
			text(func(text []byte, _ string) error { return packaging.CheckValues(text) })})
}

// looksLike reports whether a file looks as if it were of kind k, by its name or by a key in it.
func (k kind) looksLike(path string, text []byte) bool {
	name := filepath.Base(path)
	for _, n := range k.names {
		if strings.HasPrefix(name, n) || filepath.Ext(name) == n {
			return true
		}
	}
	return slices.ContainsFunc(k.keys, func(key string) bool {
		return bytes.Contains(append([]byte("\n"), text...), []byte("\n"+key+":"))
	})
}

func newConfigCheck(javaAgent, simulation Check) *cobra.Command {
	var as string
	all := kinds(javaAgent, simulation)
	var names []string
	for _, k := range all {
		names = append(names, k.as)
	}
	cmd := &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Check configurations, keys, and other files that people write",
		Long: `Check configurations, keys, and other files that people write: each FILE, or
everything in ` + configDirectory + ` of this machine. Nothing is sent to a server.

The name of a file, or else a key in it, says what the file is:

  - a key: the name ends in .secret or .public
  - a handler table: the file has rules, or its name begins with handlers
  - the configuration of a daemon: the name begins with that of the daemon, such as cp-agent.yaml
  - a simulation: the name ends in .conf
  - a virtual node: the name ends in .json
  - a job for "cprof place": the file has operators, or its name begins with job
  - a configuration of the Java agent: the file has sets or joinpoints, or its name begins with
    cloudprofiler
  - values for the Helm chart: the name begins with values

The program that reads a file also checks it. A daemon checks its file as with --check. The daemon
must be beside cprof or on the PATH. Settings in the environment, such as $CP_AGENT_NODE, override
the file here, too. To check the Java agent's file, the command needs Java and cloudprofiler.jar.
"cprof java check" says where it looks for them.

Exit code 1: a file cannot be used.`,
		Example: "  cprof config check\n  cprof config check cp-agent.yaml handlers.yaml\n" +
			"  cprof config check --as tsc-server server-17.yaml",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if as != "" && !slices.Contains(names, as) {
				return command.Usagef("--as %q: use one of %s", as, strings.Join(names, ", "))
			}
			if len(args) == 0 {
				var err error
				if args, err = configFiles(configDirectory); err != nil {
					return err
				}
			}
			bad := 0
			for _, path := range args {
				what, err := checkConfig(cmd.Context(), all, path, as)
				if err == nil {
					fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, can be used\n", path, what)
					continue
				}
				bad++
				fmt.Fprintf(cmd.OutOrStdout(), "! %s: %s: %s\n", path, what,
					strings.ReplaceAll(err.Error(), "\n", "\n    "))
			}
			if bad > 0 {
				return fmt.Errorf("%d of %d files cannot be used", bad, len(args))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "check each file as one of this `kind`: "+
		strings.Join(names, ", "))
	return cmd
}

// configFiles lists the files in a directory that look by their names like configurations or keys.
func configFiles(dir string) (files []string, err error) {
	for _, pattern := range []string{"*.yaml", "*.json", "*.conf", "*.secret", "*.public",
		"clients/*.public"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("check configurations: there are none in %q: name the files", dir)
	}
	return files, nil
}

// checkConfig returns the kind of a file. If the file cannot be used, the error says why.
func checkConfig(ctx context.Context, all []kind, path, as string) (what string, err error) {
	switch ext := filepath.Ext(path); {
	case as != "":
	case ext == ".secret":
		_, err := control.ReadKey(path)
		return "a secret key", err
	case ext == ".public" && filepath.Base(path) == "server.public":
		_, err := control.ReadServerKeys(path)
		return "public keys of a server", err
	case ext == ".public":
		_, err := control.ReadKey(path)
		return "a public key", err
	}
	text, err := plainfile.Read(path, maxTableBytes)
	if err != nil {
		return "a file", err
	}
	for _, k := range all {
		if k.as == as || as == "" && k.looksLike(path, text) {
			return k.what, k.check(ctx, path)
		}
	}
	return "a file", errors.New("neither its name nor its keys say what it is: say it with --as")
}

// askDaemon makes a daemon check a file.
func askDaemon(daemon, path string) error {
	program, err := command.FindProgram(daemon)
	if err != nil {
		return err
	}
	out, err := exec.Command(program, "--config", path, "--check").CombinedOutput()
	var failed *exec.ExitError
	if !errors.As(err, &failed) {
		return err
	}
	said := strings.TrimPrefix(strings.TrimSpace(string(out)), daemon+": ")
	said, _, _ = strings.Cut(said, fmt.Sprintf("\nsee %q", daemon+" --help"))
	return errors.New(said)
}
