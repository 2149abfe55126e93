package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/coordinator"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

func newConfig(javaAgent, simulation Check) *cobra.Command {
	config := &cobra.Command{
		Use:   "config",
		Short: "Show and change the handler table that the server serves; check configurations",
		Long: `Show and change the handler table that the server serves: which handler each channel
on each node gets. The server checks all of a table before it serves the table. A new table also
applies to channels that are open. If a node cannot reach the server, it keeps the last table that
it received.`,
		Example: `  cprof config check
  cprof config get > handlers.yaml
  cprof config diff handlers.yaml
  cprof config apply handlers.yaml
  cprof config set 'parser/*' counter --node 'canary-*'`,
	}
	config.AddCommand(newConfigGet(), newConfigSet(), newConfigDiff(), newConfigApply(),
		newConfigCheck(javaAgent, simulation))
	return config
}

func newConfigGet() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:     "get",
		Short:   "Print the handler table that the server serves",
		Example: "  cprof config get > handlers.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var now coordinator.TableRequest
			if err := server.askOnce(cmd, coordinator.AskTable, nil, &now); err != nil {
				return err
			}
			if now.Base == 0 {
				return errors.New("the server has no table yet: give it one with \"cprof config " +
					"apply FILE\"")
			}
			_, err := fmt.Fprint(cmd.OutOrStdout(), now.Text)
			return err
		},
	}
	server.add(cmd)
	return cmd
}

func newConfigApply() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:     "apply FILE",
		Short:   "Make the server serve the handler table in a file",
		Example: "  cprof config apply handlers.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readTable(args[0])
			if err != nil {
				return err
			}
			return server.setTable(cmd, coordinator.TableRequest{Text: string(text)}, math.MaxInt)
		},
	}
	server.add(cmd)
	return cmd
}

func newConfigDiff() *cobra.Command {
	var server serverFlags
	cmd := &cobra.Command{
		Use:   "diff FILE",
		Short: "Compare the table that the server serves with a table in a file",
		Long: "Compare the table that the server serves with a table in a file. - marks " +
			"lines of\nthe table that is served now, + marks lines of the file.\n\n" +
			"Exit code 0: the tables are the same. Exit code 3: they differ.",
		Example: "  cprof config diff handlers.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := readTable(args[0])
			if err != nil {
				return err
			}
			var now coordinator.TableRequest
			if err := server.askOnce(cmd, coordinator.AskTable, nil, &now); err != nil {
				return err
			}
			lines := diffLines(strings.Split(strings.TrimSuffix(now.Text, "\n"), "\n"),
				strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"))
			changed := false
			for _, l := range lines {
				changed = changed || l[0] != ' '
				fmt.Fprintln(cmd.OutOrStdout(), l)
			}
			if changed {
				return fmt.Errorf("the tables differ: %w", command.ErrPartial)
			}
			return nil
		},
	}
	server.add(cmd)
	return cmd
}

func newConfigSet() *cobra.Command {
	var server serverFlags
	var node, params string
	cmd := &cobra.Command{
		Use:   "set CHANNEL HANDLER",
		Short: "Put one rule before all others",
		Long: `Put one rule before all others: channels whose names match the pattern get the
handler. If the table has a rule with the same patterns, the new rule replaces it. The table loses
its comments. To keep them, edit the table's file and use "cprof config apply".`,
		Example: `  cprof config set 'parser/*' counter
  cprof config set 'parser/*' xoy --params '{x: 2, y: 1Ki}' --node 'canary-*'`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			rule := fmt.Sprintf("version: 1\nrules:\n  - node: %q\n    channel: %q\n    "+
				"handler: %s\n", cmp.Or(node, "*"), args[0], args[1])
			if params != "" {
				rule += "    params: " + params + "\n"
			}
			added, err := handlertable.Parse([]byte(rule), "rule")
			if err != nil {
				return command.UsageError{Err: err}
			}
			link, err := server.dial(cmd)
			if err != nil {
				return err
			}
			defer link.Close()
			var now coordinator.TableRequest
			if err := link.Ask(cmd.Context(), coordinator.AskTable, nil, &now); err != nil {
				return err
			}
			table := &handlertable.Table{}
			if now.Base > 0 {
				if table,
					err = handlertable.Parse([]byte(now.Text), "the server's table"); err != nil {
					return err
				}
			}
			next := handlertable.Table{Rules: added.Rules}
			for _, r := range table.Rules {
				if cmp.Or(r.Node, "*") != cmp.Or(added.Rules[0].Node, "*") ||
					r.Channel != added.Rules[0].Channel {
					next.Rules = append(next.Rules, r)
				}
			}
			now.Text, now.Uses = string(next.Text()), nil
			return server.setTable(cmd, now, 1)
		},
	}
	server.add(cmd)
	cmd.Flags().StringVar(&node, "node", "", "pattern of nodes' names (default: all)")
	cmd.ValidArgsFunction = command.CompleteChannels(new(string), 1,
		cobra.ShellCompDirectiveNoFileComp)
	command.CompleteFlag(cmd, "node", server.completeNodes(anyNumber))
	cmd.Flags().StringVar(&params, "params", "", "the handler's parameters, in YAML, in braces")
	return cmd
}

// settleLimit is how long setTable waits for the nodes to use a new table.
const settleLimit = 3 * time.Second

// setTable sends a table to the server. Then it prints how many nodes use the table. About the
// first rules of the table, it prints more: how many open channels got one of these rules, and
// which of these rules no channel got. The parameter first is the number of these rules.
func (s *serverFlags) setTable(cmd *cobra.Command, r coordinator.TableRequest, first int) error {
	r.By = "cprof"
	if u, err := user.Current(); err == nil {
		r.By = u.Username
	}
	link, err := s.dial(cmd)
	if err != nil {
		return err
	}
	defer link.Close()
	var served coordinator.TableRequest
	if err := link.Ask(cmd.Context(), coordinator.AskSetTable, r, &served); err != nil {
		return err
	}
	end := time.Now().Add(settleLimit)
	err = pollUntil(cmd.Context(), func() (bool, error) {
		var now coordinator.TableRequest
		err := link.Ask(cmd.Context(), coordinator.AskTable, nil, &now)
		if err == nil && now.Base == served.Base {
			served.Uses = now.Uses
		}
		waits := func(u coordinator.TableUse) bool {
			return u.Generation != served.Base && u.Error == ""
		}
		return now.Base != served.Base || !slices.ContainsFunc(now.Uses, waits) ||
			time.Now().After(end), err
	})
	if err != nil {
		return err
	}
	table, err := handlertable.Parse([]byte(served.Text), "the server's table")
	if err != nil {
		return err
	}
	return printUses(cmd.OutOrStdout(), served, table.Rules[:min(first, len(table.Rules))])
}

// printUses prints which nodes use a table, and which of its rules no channel got.
func printUses(w io.Writer, t coordinator.TableRequest, rules []handlertable.Rule) error {
	var use, silent int
	got := make([]int, len(rules))
	for _, u := range t.Uses {
		switch {
		case u.Generation != t.Base:
			continue
		case u.Matched == nil:
			silent++
		}
		use++
		for i := range min(len(got), len(u.Matched)) {
			got[i] += u.Matched[i]
		}
	}
	fmt.Fprintf(w, "generation %d is served; %d of %d nodes use it", t.Base, use, len(t.Uses))
	if silent < use {
		sum := 0
		for _, n := range got {
			sum += n
		}
		fmt.Fprintf(w, ", for %d open channels", sum)
	}
	fmt.Fprintln(w)
	for _, u := range t.Uses {
		if u.Generation != t.Base {
			fmt.Fprintf(w, "! node %s uses generation %d: %s\n", u.Node, u.Generation,
				command.Line(cmp.Or(u.Error, "it has not answered yet")))
		}
	}
	for i, r := range rules {
		if use > 0 && silent == 0 && got[i] == 0 {
			fmt.Fprintf(w, "! no channel that is open now gets rule %d, for channel %q on node "+
				"%q: a channel that a program opens later may\n", i+1, r.Channel,
				cmp.Or(r.Node, "*"))
		}
	}
	return nil
}

// maxTableBytes is how much of a file is read. It is more than handlertable.Parse accepts, so a
// table that is too long gets the error of Parse.
const maxTableBytes = 2 << 20

func readTable(path string) ([]byte, error) {
	file, err := os.Open(path) // path may be a pipe, for example from a shell's <(…)
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	defer file.Close()
	text, err := plainfile.ReadAll(file, path, maxTableBytes)
	if err != nil {
		return nil, fmt.Errorf("read table: %w", err)
	}
	_, err = handlertable.Parse(text, path)
	return text, err
}

// diffLines returns the lines that were removed from a and added in b. It keeps the longest
// sequence of lines that both texts contain. If the texts are too long to find that sequence, it
// shows all lines of a as removed, and all lines of b as added.
func diffLines(a, b []string) (out []string) {
	const most = 4000
	if len(a)*len(b) > most*most {
		for _, l := range a {
			out = append(out, "-"+l)
		}
		for _, l := range b {
			out = append(out, "+"+l)
		}
		return out
	}
	common := make([][]int32, len(a)+1) // by i, j: length of the common subsequence of a[i:], b[j:]
	for i := range common {
		common[i] = make([]int32, len(b)+1)
	}
	for i := len(a) - 1; i >= 0; i-- {
		for j := len(b) - 1; j >= 0; j-- {
			if a[i] == b[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			out = append(out, " "+a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && common[i+1][j] >= common[i][j+1]:
			out = append(out, "-"+a[i])
			i++
		default:
			out = append(out, "+"+b[j])
			j++
		}
	}
	return out
}
