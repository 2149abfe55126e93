package machine

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/internal/doctor"
)

func newDoctor() *cobra.Command {
	var asJSON, wander bool
	var seconds float64
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Say what on this machine is fit to measure time, what is not, and what to do",
		Long: `Say what on this machine is fit to measure time, what is not, and what to do about
it. This covers the counter, its quantum, how far the cores may disagree, and what ends an epoch and
how much of that can be seen here. It also covers shared memory for rings, kernel stamps on each
interface, what steers CLOCK_REALTIME, sleep and limits. It measures for about a second and changes
nothing.

With --wander it compares the counter with the machine's other clocks instead, for a minute, and
says how far the counter's rate moves and what --wander that justifies. Most clocks of a machine are
made from its counter, or from the same crystal. The command says which, and what cannot be seen
from here.

Exit code 1: the machine is unfit. Exit code 3: something could not be found out.`,
		Example: "  cprof doctor\n  cprof doctor --wander --seconds 600\n  cprof doctor --json | " +
			"jq '.findings[] | select(.verdict != \"fit\")'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wander {
				return doctorWander(cmd.Context(), seconds, asJSON, cmd.OutOrStdout(),
					cmd.ErrOrStderr())
			}
			if cmd.Flags().Changed("seconds") {
				return command.Usagef("--seconds goes with --wander")
			}
			report := host.Examine(host.SystemOptions())
			report.Findings = append(report.Findings, doctor.Examine(doctor.System())...)
			var err error
			if asJSON {
				err = json.NewEncoder(cmd.OutOrStdout()).Encode(report)
			} else {
				_, err = report.WriteTo(cmd.OutOrStdout())
			}
			if err != nil {
				return err
			}
			return doctorVerdict(report)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	cmd.Flags().BoolVar(&wander, "wander", false, "measure how far the counter's rate moves, as "+
		"far as this machine can see that")
	cmd.Flags().Float64Var(&seconds, "seconds", 60, "how long --wander looks; 20 at least")
	return cmd
}

// doctorVerdict turns a report into the command's exit code.
func doctorVerdict(report host.Report) error {
	switch report.Verdict() {
	case host.Unfit:
		return errors.New("this machine is unfit to measure time: see what to do above")
	case host.Unknown:
		return fmt.Errorf("not everything could be found out: %w", command.ErrPartial)
	}
	return nil
}
