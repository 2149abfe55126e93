package fleet

import (
	"bytes"
	"cmp"
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
)

// configDirectory is where packages and docs/operating.md put configurations.
const configDirectory = "/etc/cloudprofiler"

// daemons are the programs that have a configuration. Each checks its own.
var daemons = []string{"cp-agent", "tsc-server", "tsc-client"}

func newConfigCheck() *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use:   "check [FILE...]",
		Short: "Check configurations, handler tables and keys",
		Long: `Check configurations, handler tables and keys: each FILE, or everything in
` + configDirectory + ` of this machine. Nothing is sent to a server.

A file is a key if its name ends in .secret or .public, and a handler table if it has rules.
Otherwise it is the configuration of the daemon whose name its own begins with, such as
cp-agent.yaml, and that daemon checks it as with --check. The daemon must be beside cprof or on the
PATH. Settings in the environment, such as $CP_AGENT_NODE, override the file here, too.

Exit code 1: a file cannot be used.`,
		Example: "  cprof config check\n  cprof config check cp-agent.yaml handlers.yaml\n" +
			"  cprof config check --as tsc-server server-17.yaml",
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if as != "" && !slices.Contains(daemons, as) {
				return command.Usagef("--as %q: use one of %s", as, strings.Join(daemons, ", "))
			}
			if len(args) == 0 {
				var err error
				if args, err = configFiles(configDirectory); err != nil {
					return err
				}
			}
			bad := 0
			for _, path := range args {
				what, err := checkConfig(path, as)
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
	cmd.Flags().StringVar(&as, "as", "", "check the files as configurations of this `daemon`")
	return cmd
}

// configFiles lists what a directory of configurations contains.
func configFiles(dir string) (files []string, err error) {
	for _, pattern := range []string{"*.yaml", "*.secret", "*.public", "clients/*.public"} {
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

// checkConfig returns what a file is, and why it cannot be used.
func checkConfig(path, as string) (what string, err error) {
	switch ext := filepath.Ext(path); {
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
	if as == "" && (bytes.HasPrefix(text, []byte("rules:")) ||
		bytes.Contains(text, []byte("\nrules:"))) {
		_, err := handlertable.Parse(text, path)
		return "a handler table", err
	}
	for _, daemon := range daemons {
		if cmp.Or(as, filepath.Base(path)) == daemon || as == "" &&
			strings.HasPrefix(filepath.Base(path), daemon) {
			return "a configuration of " + daemon, askDaemon(daemon, path)
		}
	}
	return "a file", fmt.Errorf("its name does not begin with that of a daemon (%s): say with "+
		"--as which daemon reads it", strings.Join(daemons, ", "))
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
