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
		Short: "Check whether this machine is fit to measure time",
		Long: `Check whether this machine is fit to measure time, and say what to do if it is not.
The checks cover the counter, its quantum, how far the cores may disagree, and which events that end
an epoch this machine can detect. They also cover shared memory for rings, kernel stamps on each
interface, what adjusts CLOCK_REALTIME, sleep and limits, and whether messages of programs could be
captured with the rights of this user. The command measures for about a second and changes nothing.

With --wander, the command instead compares the counter with the machine's other clocks for a
minute. It says how far the counter's rate moves, and which wander that justifies. The kernel
computes most clocks from the counter, or they use the same crystal. The command names these clocks,
and says what they cannot show.

Exit code 1: the machine is unfit. Exit code 3: something could not be determined.`,
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
			report.Findings = append(report.Findings, captureFinding())
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
	cmd.Flags().BoolVar(&wander, "wander", false, "measure how far the counter's rate moves, if "+
		"this machine's clocks can show it")
	cmd.Flags().Float64Var(&seconds, "seconds", 60, "how long --wander measures; at least 20")
	return cmd
}

// doctorVerdict turns the worst verdict of a report into the command's exit code.
func doctorVerdict(report host.Report) error {
	switch report.Verdict() {
	case host.Unfit:
		return errors.New("this machine is unfit to measure time: see what to do above")
	case host.Unknown:
		return fmt.Errorf("not everything could be found out: %w", command.ErrPartial)
	}
	return nil
}
