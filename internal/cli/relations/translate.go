package relations

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

func newRelationTranslate() *cobra.Command {
	var flags relationFlags
	var from, epoch string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "translate FILE [COUNT...]",
		Short: "Translate readings of one node's counter into the other's, with the bound",
		Long: `Translate readings of one node's counter into the other's, with the bound.

COUNT is a reading of the counter of --from, as a decimal number. If there is no COUNT, the command
reads one reading from each line of standard input. Each answer is an interval. It contains the
reading of the other counter at that moment, if the assumptions of the relation are true.

Exit code 1: no reading could be translated. Exit code 3: some readings could not be translated, or
the relation is suspect.`,
		Example: `  cprof relation translate a--b.rel 90872340987234
  cprof relation translate a--b.rel --from a 3452345 3462345 --json
  cprof log dump --json b.cplog | jq -r 'select(.kind == "events") | .counter' |
    cprof relation translate a--b.rel --from b`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			pair, err := readPair(args[0], flags.with)
			if err != nil {
				return err
			}
			source, err := sideOf(pair, from, tscratio.SideB, "--from")
			if err != nil {
				return err
			}
			if own := nodeOf(pair, source); cmd.Flags().Changed("epoch") && own.Epoch != epoch {
				return fmt.Errorf("translate: readings of %q are of epoch %q, %q knows epoch %q: "+
					"%w: take the relation that was measured in that epoch",
					own.Name, epoch, args[0], own.Epoch, tscratio.ErrEpoch)
			}
			into := tscratio.SideA + tscratio.SideB - source
			relation, err := flags.relateInto(pair, into)
			if err != nil {
				return err
			}
			t := translator{relation: relation, cursor: relation.Cursor(),
				out: bufio.NewWriter(cmd.OutOrStdout()), errors: cmd.ErrOrStderr(), json: asJSON}
			if len(args) > 1 {
				err = t.all(strings.NewReader(strings.Join(args[1:], "\n")))
			} else {
				err = t.all(cmd.InOrStdin())
			}
			return errors.Join(err, t.out.Flush())
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the `node` whose counter was read (default: the "+
		"file's second)")
	cmd.Flags().StringVar(&epoch, "epoch", "", "epoch of the readings; if the relation is of "+
		"another epoch, refuse")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object per line")
	return cmd
}

func nodeOf(pair *tscratio.Pair, s tscratio.Side) tscratio.Node {
	if s == tscratio.SideA {
		return pair.A
	}
	return pair.B
}

// translationLine is a line that "cprof relation translate --json" prints. Scripts read it, so
// fields may only be added.
type translationLine struct {
	Reading  string   `json:"reading_cycles"`
	From     string   `json:"from"`
	Into     string   `json:"into"`
	Lo       string   `json:"lo_cycles,omitempty"`
	Hi       string   `json:"hi_cycles,omitempty"`
	Bound_us *float64 `json:"bound_us,omitempty"`
	Verdict  string   `json:"verdict,omitempty"`
	Error    string   `json:"error,omitempty"`
}

type translator struct {
	relation *tscratio.Relation
	cursor   tscratio.Cursor
	out      *bufio.Writer
	errors   io.Writer
	json     bool
}

func (t *translator) all(in io.Reader) error {
	lines := bufio.NewScanner(in)
	var asked, failed int
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		asked++
		ok, err := t.one(text)
		if err != nil {
			return err
		}
		if !ok {
			failed++
		}
	}
	switch err := lines.Err(); {
	case err != nil:
		return fmt.Errorf("read readings: %w", err)
	case failed > 0 && failed == asked:
		return fmt.Errorf("none of %d readings could be translated", asked)
	case failed > 0:
		return fmt.Errorf("%d of %d readings could not be translated: %w",
			failed, asked, command.ErrPartial)
	case t.relation.Verdict == tscratio.Suspect:
		return fmt.Errorf("the relation is suspect: bounds are estimates, computed with a "+
			"wander of %v: %w", t.relation.Wander, command.ErrPartial)
	}
	return nil
}

// one translates one reading. If the reading cannot be translated, ok is false.
func (t *translator) one(text string) (ok bool, err error) {
	r := t.relation
	line := translationLine{Reading: text, From: r.From.Name, Into: r.Into.Name}
	var at tscratio.Interval
	y, problem := strconv.ParseUint(text, 10, 64)
	if problem != nil {
		problem = fmt.Errorf("%q is no reading: give a decimal number below 2^64", text)
	} else {
		at, problem = t.cursor.Translate(y)
	}
	if problem == nil {
		half := toMicroseconds(r.Into, float64(at.Width())/2)
		line.Lo, line.Hi, line.Bound_us, line.Verdict = decimal(at.Lo), decimal(at.Hi), &half,
			r.Verdict.String()
	} else {
		line.Error = problem.Error()
	}
	switch {
	case t.json:
		err = json.NewEncoder(t.out).Encode(line)
	case problem != nil:
		_, err = fmt.Fprintf(t.errors, "%v\n", problem)
	default:
		mark := ""
		if r.Verdict == tscratio.Suspect {
			mark = "  (estimate: suspect)"
		}
		_, err = fmt.Fprintf(t.out, "%s of %s is in [%d, %d] of %s: %d ± %d cycles, ± %s at its "+
			"nominal rate%s\n",
			text, r.From.Name, at.Lo, at.Hi, r.Into.Name, at.Mid(), at.HalfWidth(),
			formatMicroseconds(*line.Bound_us), mark)
	}
	return problem == nil, err
}
