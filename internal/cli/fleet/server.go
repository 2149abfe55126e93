package fleet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
)

// defaultServer is the server's address if the user gives none.
const defaultServer = "127.0.0.1:7330"

// serverFlags contains the server's address and the keys for the connection to it.
type serverFlags struct{ address, key, serverKey string }

func (s *serverFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.address, "server", cmp.Or(os.Getenv("CLOUDPROFILER_SERVER"), defaultServer),
		"the server's address:port; $CLOUDPROFILER_SERVER")
	f.StringVar(&s.key, "key", os.Getenv("CLOUDPROFILER_KEY"), "file of your secret key, of role "+
		"admin; $CLOUDPROFILER_KEY")
	f.StringVar(&s.serverKey, "server-key", os.Getenv("CLOUDPROFILER_SERVER_KEY"),
		"file of the server's public key; $CLOUDPROFILER_SERVER_KEY")
}

// dial opens a link to the server. It does not wait for the server.
func (s *serverFlags) dial(cmd *cobra.Command) (*link, error) {
	c := control.ClientConfig{Server: s.address}
	if (s.key == "") != (s.serverKey == "") {
		return nil, command.Usagef("--key and --server-key belong together: give both, or " +
			"neither for a server on this machine without keys")
	}
	if s.key != "" {
		key, err := control.ReadKey(s.key)
		if err != nil {
			return nil, err
		}
		c.Key, c.Publics = &key,
			func() ([]string, error) { return control.ReadServerKeys(s.serverKey) }
		if _, err := c.Publics(); errors.Is(err, control.ErrKeyRole) {
			return nil,
				command.UsageError{Err: fmt.Errorf("--server-key is not the key of a server: %w",
					err)}
		} else if err != nil {
			return nil, err
		}
	}
	client, err := control.Dial(c)
	if errors.Is(err, control.ErrNeedsKeys) {
		return nil, command.UsageError{Err: err}
	} else if err != nil {
		return nil, err
	}
	return &link{Client: client, server: s.address, errs: cmd.ErrOrStderr()}, nil
}

// askOnce connects to the server, asks it one question by the method Ask of link, and closes the
// connection.
func (s *serverFlags) askOnce(cmd *cobra.Command, what string, argument, result any) error {
	link, err := s.dial(cmd)
	if err != nil {
		return err
	}
	defer link.Close()
	return link.Ask(cmd.Context(), what, argument, result)
}

// askEach asks the server the same question for every name in turn. After each answer it prints the
// given text (done) and the name. It stops at the first error.
func (s *serverFlags) askEach(cmd *cobra.Command, names []string, done, what string,
	argument func(name string) any) error {
	link, err := s.dial(cmd)
	if err != nil {
		return err
	}
	defer link.Close()
	for _, name := range names {
		if err := link.Ask(cmd.Context(), what, argument(name), nil); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", done, name)
	}
	return nil
}

func printJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(v)
}
