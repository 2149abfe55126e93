package rings

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/agent"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

func newRingList() *cobra.Command {
	var dir string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the rings of this node",
		Long: `List the rings of this node: which program and channel each belongs to, how many
records wait in it, and how many events it lost.

Exit code 3: some files cannot be read as rings.`,
		Example: "  cprof ring list\n  cprof ring list --json | jq 'select(.state == " +
			"\"orphan\") | .path'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return listRings(cmd.OutOrStdout(), cmd.ErrOrStderr(), dir, asJSON, time.Now())
		},
	}
	command.RingsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

func listRings(w, errs io.Writer, dir string, asJSON bool, now time.Time) error {
	files, err := ringFiles(&dir)
	if err != nil {
		return err
	}
	var states []ringState
	var broken []error
	for _, file := range files {
		state, err := stateOf(file)
		if err != nil {
			broken = append(broken, err)
			continue
		}
		states = append(states, state)
	}
	switch {
	case asJSON:
		encoder := json.NewEncoder(w)
		for _, s := range states {
			if err := encoder.Encode(s); err != nil {
				return err
			}
		}
	case len(states) == 0:
		fmt.Fprintf(w, "no rings in %s\n", dir)
	default:
		fmt.Fprintf(w, "%s\n", dir)
		fmt.Fprintf(w, "%-28s %-7s %-22s %-9s %10s %12s %10s %9s %8s  %s\n", "channel", "state",
			"handler", "policy", "waiting", "logged", "dropped", "open for", "process", "remark")
		for _, s := range states {
			fmt.Fprintf(w, "%-28s %-7s %-22s %-9s %10d %12d %10d %9s %8d  %s\n",
				s.Channel, s.State, s.Handler, s.Policy, s.Waiting, s.Logged+s.Counted, s.Dropped,
				now.Sub(s.openedMoment).Round(time.Second), s.Process, s.remark())
		}
	}
	if !asJSON {
		for _, other := range othersWithRings(dir) {
			fmt.Fprintf(w, "rings of another user, or of another $CLOUDPROFILER_DIR, are in %s: "+
				"%scprof ring list --rings %s\n", other, agent.AsOwner(other), other)
		}
	}
	for _, err := range broken {
		fmt.Fprintf(errs, "cannot read: %v\n", err)
	}
	if len(broken) > 0 {
		return fmt.Errorf("%d of %d files cannot be read as rings: %w", len(broken), len(files),
			command.ErrPartial)
	}
	return nil
}

// othersWithRings looks into the directories in which other users usually have their rings, and
// returns those that contain rings. It finds only those that this user may read.
func othersWithRings(dir string) []string {
	return slices.DeleteFunc(agent.OthersBeside(dir), func(other string) bool {
		files, err := ring.Files(other)
		return err != nil || len(files) == 0
	})
}

func stateOf(file string) (ringState, error) {
	r, err := ring.Open(file)
	if err != nil {
		return ringState{}, err
	}
	defer r.Close()
	return readRingState(r)
}

func (s ringState) remark() string {
	switch {
	case s.BadSettings:
		return "got settings that no handler accepts: its handler is null now"
	case s.Misuse:
		return "Log was called on a link channel, Link on another, or LogAt with a bad stamp or " +
			"on a shared channel: such calls stored nothing"
	case s.State == "orphan" && s.Waiting > 0:
		return "rescue it: cprof ring salvage"
	}
	return ""
}
