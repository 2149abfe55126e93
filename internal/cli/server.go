package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/control"
)

// DefaultServer is where a server listens that nobody told another address.
const DefaultServer = "127.0.0.1:7330"

// serverFlags are how a command finds the server, and what it shows there.
type serverFlags struct{ address, key, serverKey string }

// environment gives a flag that was not given the value of a variable, and otherwise its default.
func environment(variable, otherwise string) string {
	if v := os.Getenv(variable); v != "" {
		return v
	}
	return otherwise
}

func (s *serverFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.address, "server", environment("CLOUDPROFILER_SERVER", DefaultServer), "the server's address:port; $CLOUDPROFILER_SERVER")
	f.StringVar(&s.key, "key", os.Getenv("CLOUDPROFILER_KEY"), "file of your secret key, of role admin; $CLOUDPROFILER_KEY")
	f.StringVar(&s.serverKey, "server-key", os.Getenv("CLOUDPROFILER_SERVER_KEY"), "file of the server's public key; $CLOUDPROFILER_SERVER_KEY")
}

// dial opens a link to the server.
func (s *serverFlags) dial() (*control.Client, error) {
	c := control.ClientConfig{Server: s.address}
	if (s.key == "") != (s.serverKey == "") {
		return nil, usagef("--key and --server-key belong together: give both, or neither for a server on this machine without keys")
	}
	if s.key != "" {
		key, err := control.ReadKey(s.key)
		if err != nil {
			return nil, err
		}
		server, err := control.ReadKey(s.serverKey)
		if err != nil {
			return nil, err
		}
		if server.Role != control.RoleServer {
			return nil, usagef("--server-key %q is the key of %s %q, not of a server", s.serverKey, server.Role, server.Name)
		}
		c.Key, c.Public = &key, server.Public
	}
	link, err := control.Dial(c)
	if errors.Is(err, control.ErrNeedsKeys) {
		return nil, usageError{err}
	}
	return link, err
}

// askLimit is how long the server has for an answer.
const askLimit = 10 * time.Second

// ask asks the server one question and reads its answer into result, unless that is nil.
func ask(ctx context.Context, link *control.Client, what string, argument, result any) error {
	m := &control.Ask{What: what}
	if argument != nil {
		text, err := json.Marshal(argument)
		if err != nil {
			return err
		}
		m.Argument = text
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	answer, err := link.Call(ctx, m)
	if errors.Is(err, control.ErrKey) {
		return fmt.Errorf("%w: its public half has to be in the server's client_keys", err)
	}
	if errors.Is(err, control.ErrUnreachable) {
		return fmt.Errorf("%w: is tsc-server running there, and are the keys right?", err)
	}
	if err != nil {
		return err
	}
	a, ok := answer.(*control.Answer)
	if !ok {
		return fmt.Errorf("ask %q: server answers with %s", what, answer.Kind())
	}
	if result == nil {
		return nil
	}
	if err := json.Unmarshal(a.Result, result); err != nil {
		return fmt.Errorf("ask %q: read the answer: %w", what, err)
	}
	return nil
}

// asking is ask for a command that has one question.
func (s *serverFlags) asking(cmd *cobra.Command, what string, argument, result any) error {
	link, err := s.dial()
	if err != nil {
		return err
	}
	defer link.Close()
	return ask(cmd.Context(), link, what, argument, result)
}

func printJSON(cmd *cobra.Command, v any) error {
	e := json.NewEncoder(cmd.OutOrStdout())
	e.SetIndent("", "  ")
	return e.Encode(v)
}
