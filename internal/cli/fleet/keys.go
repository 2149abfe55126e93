package fleet

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

func newKeys() *cobra.Command {
	keys := &cobra.Command{
		Use:   "keys",
		Short: "Make the keys with which server and clients recognize each other",
		Long: `Make the keys with which server and clients recognize each other, in one directory on
the server's machine:

  server.secret           for the server alone
  server.public           for everybody
  clients/NAME.public     lets NAME connect; to shut NAME out, remove the file
  NAME.secret             for NAME alone

Each key belongs to one node: a node can register only with the key of its own name.

Without keys, the server and its clients must be on one machine. Every program on that machine can
then read their messages.`,
		Example: `  cprof keys server
  cprof keys client node-a
  cprof keys client alice --admin`,
	}
	keys.AddCommand(newKeysServer(), newKeysClient())
	return keys
}

func newKeysServer() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Make the server's key",
		Example: `  cprof keys server
  cprof keys server --dir /etc/cloudprofiler`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			key, err := control.NewKey("server", control.RoleServer)
			if err != nil {
				return err
			}
			clients := filepath.Join(dir, "clients")
			if err := os.MkdirAll(clients, 0o755); err != nil {
				return fmt.Errorf("make key: %w", err)
			}
			secret, public := filepath.Join(dir, "server.secret"),
				filepath.Join(dir, "server.public")
			if err := writeKeys(key, secret, public); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), `made %s   keep it on this machine
made %s   copy it to every node

Start the server with:
  tsc-server --listen 0.0.0.0:7330 --key %s --client-keys %s
Make a key for each node, and one for yourself:
  cprof keys client NODE --dir %s
  cprof keys client YOU --admin --dir %[5]s
`, secret, public, secret, clients, dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "directory for the keys")
	return cmd
}

func newKeysClient() *cobra.Command {
	var dir string
	var admin bool
	cmd := &cobra.Command{
		Use:   "client NAME",
		Short: "Make the key of a node, or of a person",
		Example: `  cprof keys client node-a
  cprof keys client alice --admin --dir /etc/cloudprofiler`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			role := control.RoleNode
			if admin {
				role = control.RoleAdmin
			}
			name := args[0]
			if name == "server" {
				return command.Usagef("the name %q is the server's: choose another", name)
			}
			if err := control.CheckName(name); err != nil {
				return command.UsageError{Err: err}
			}
			if _, err := os.Stat(filepath.Join(dir, "server.public")); err != nil {
				return fmt.Errorf("make key %q: no server.public in %q: make the server's key "+
					"first (\"cprof keys server\"), or give its directory with --dir", name, dir)
			}
			key, err := control.NewKey(name, role)
			if err != nil {
				return err
			}
			clients := filepath.Join(dir, "clients")
			if err := os.MkdirAll(clients, 0o755); err != nil {
				return fmt.Errorf("make key: %w", err)
			}
			secret, public := filepath.Join(dir, name+".secret"),
				filepath.Join(clients, name+".public")
			if err := writeKeys(key, secret, public); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "made %s   lets %s %q in, from now on\nmade %s   move "+
				"it to where it is used, with mode 0600, together with %s\n\n",
				public, role, name, secret, filepath.Join(dir, "server.public"))
			if admin {
				fmt.Fprintf(cmd.OutOrStdout(), "Ask the server with it:\n  cprof nodes --server "+
					"SERVER:7330 --key %s.secret --server-key server.public\n", name)
			} else {
				fmt.Fprintf(cmd.OutOrStdout(), "Start the node with it:\n  tsc-client --server "+
					"SERVER:7330 --key %s.secret --server-key server.public --probes "+
					"0.0.0.0:7341\n", name)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "directory of the server's keys")
	cmd.Flags().BoolVar(&admin, "admin", false, "let its owner manage nodes, runs and the "+
		"handler table")
	return cmd
}

// writeKeys writes both halves of a key. If there is an error, it leaves neither file behind.
func writeKeys(key control.Key, secret, public string) error {
	if err := key.Write(secret); err != nil {
		return err
	}
	if err := key.Halved().Write(public); err != nil {
		os.Remove(secret)
		return err
	}
	return nil
}
