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
		Long: `Say what on this machine is fit to measure time, what is not, and what to do about it: the counter, its quantum, how far the
cores may disagree, what ends an epoch and what of it can be seen here; then what surrounds it: shared memory for rings, kernel
stamps on each interface, what steers CLOCK_REALTIME, sleep, limits. It measures for about a second and changes nothing.

With --wander it holds the counter against the machine's other clocks instead, for a minute, and says how far the counter's rate
moves and what --wander that justifies. Most clocks of a machine are made from its counter, or from the same crystal; it says
which, and what cannot be seen from here.

Exit code 1: the machine is unfit. Exit code 3: something could not be found out.`,
		Example: "  cprof doctor\n  cprof doctor --wander --seconds 600\n  cprof doctor --json | jq '.findings[] | select(.verdict != \"fit\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wander {
				return doctorWander(cmd.Context(), seconds, asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
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
	cmd.Flags().BoolVar(&wander, "wander", false, "measure how far the counter's rate moves, as far as that can be seen from here")
	cmd.Flags().Float64Var(&seconds, "seconds", 60, "how long --wander looks; 20 at least")
	return cmd
}

// doctorVerdict makes the exit code of a report.
func doctorVerdict(report host.Report) error {
	switch report.Verdict() {
	case host.Unfit:
		return errors.New("this machine is unfit to measure time: see what to do above")
	case host.Unknown:
		return fmt.Errorf("not everything could be found out: %w", command.ErrPartial)
	}
	return nil
}
