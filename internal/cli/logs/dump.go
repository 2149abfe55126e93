package logs

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"github.com/cloudprofiler/cloudprofiler/internal/command"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

type dumpFlags struct {
	json     bool
	limit    uint64
	from, to uint64
}

func newLogDump() *cobra.Command {
	var flags dumpFlags
	cmd := &cobra.Command{
		Use:   "dump PATH...",
		Short: "Print the content of a log, one row on each line",
		Long: `Print the content of a log, one row on each line: kind, shard, sequence number, and
the row's values. Lines that begin with # say which log follows and which parts of it are damaged or
missing.

Exit code 3: something is damaged or missing.`,
		Example: `  cprof log dump ./logs
  cprof log dump --limit 10 ./logs
  cprof log dump --from 12238882201699 --to 12238892201699 ./logs
  cprof log dump --json ./logs | jq 'select(.kind == "events") | .id'`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if flags.from > flags.to {
				return command.Usagef("--from %d is above --to %d: no counter is between them",
					flags.from, flags.to)
			}
			return dumpLogs(cmd.OutOrStdout(), args, flags)
		},
	}
	cmd.Flags().BoolVar(&flags.json, "json", false, "print one JSON object per line")
	cmd.Flags().Uint64Var(&flags.limit, "limit", math.MaxUint64, "print at most this many `rows` "+
		"of each log")
	cmd.Flags().Uint64Var(&flags.from, "from", 0, "print no rows with a counter below this `count`")
	cmd.Flags().Uint64Var(&flags.to, "to", math.MaxUint64, "print no rows with a counter above "+
		"this `count`")
	// --help shows these words instead of numbers.
	cmd.Flags().Lookup("limit").DefValue, cmd.Flags().Lookup("to").DefValue = "all", "the largest"
	return cmd
}

// dumpRow is a row in a form for printing. Its values are decimal strings, because 64 bits do not
// fit into a JSON number.
type dumpRow struct {
	Channel     string `json:"channel"`
	Incarnation string `json:"incarnation"`
	Kind        string `json:"kind"`
	Shard       int    `json:"shard"`
	Sequence    uint64 `json:"sequence,string"`

	names  []string
	values []string
}

// set sets the row's values. The arguments are the name of a value, the value, the next name, and
// so on.
func (r *dumpRow) set(pairs ...any) {
	for i := 0; i < len(pairs); i += 2 {
		r.names = append(r.names, pairs[i].(string))
		r.values = append(r.values, fmt.Sprint(pairs[i+1]))
	}
}

// errEnough ends the reading of a log after the requested number of rows.
var errEnough = fmt.Errorf("enough rows")

func dumpLogs(w io.Writer, paths []string, flags dumpFlags) error {
	logs, err := findLogs(paths)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(w)
	defer out.Flush()
	bad := 0
	for _, l := range logs {
		whole, err := dumpLog(out, l, flags)
		if err != nil {
			return fmt.Errorf("dump %s: %w", l.name, err)
		}
		if !whole {
			bad++
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d of %d logs are damaged or lack rows, see cprof log check: %w",
			bad, len(logs), command.ErrPartial)
	}
	return nil
}

func dumpLog(w io.Writer, l aLog, flags dumpFlags) (whole bool, err error) {
	r, closer, err := l.open()
	if err != nil {
		return false, err
	}
	defer closer.Close()
	first, rows := true, uint64(0)
	err = logstore.EachBlock(r.Next, func(b *logstore.Block) error {
		if first && !flags.json {
			fmt.Fprintf(w, "# %s: %s\n", l.name, headerLine(r.Header()))
		}
		first = false
		for i := range b.Len() {
			counter, row := rowOf(b, i)
			if counter < flags.from || counter > flags.to {
				continue
			}
			if rows == flags.limit {
				return errEnough
			}
			rows++
			if err := row.print(w, r.Header(), flags.json); err != nil {
				return err
			}
		}
		return nil
	})
	if err == errEnough {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	report := r.Report()
	if !flags.json {
		l.printLacks(w, "# ")
		printDamage(w, "# ", report)
	}
	return l.whole(report), nil
}

// rowOf returns a row of a block in a form for printing. It also returns the row's counter, or 0 if
// the row has none.
func rowOf(b *logstore.Block, i int) (counter uint64, row dumpRow) {
	row = dumpRow{Kind: b.Kind().String(), Shard: b.Shard, Sequence: b.First + uint64(i)}
	switch b.Kind() {
	case logstore.Events:
		e := b.Events[i]
		counter = e.Counter
		row.set("counter", e.Counter, "id", e.ID)
	case logstore.Links:
		row.set("parent", b.Links[i].Parent, "child", b.Links[i].Child)
	case logstore.Samples:
		s := b.Samples[i]
		counter = s.Counter
		row.set("counter", s.Counter, "count", s.Count)
	case logstore.FirstLasts:
		f := b.FirstLasts[i]
		counter = f.LastCounter
		row.set("count", f.Count, "first_counter", f.FirstCounter, "first_id", f.FirstID,
			"last_counter", f.LastCounter, "last_id", f.LastID, "poison_counter", f.Poison)
	case logstore.Transitions:
		t := b.Transitions[i]
		counter = t.Counter
		row.set("from", t.From, "handler", t.Settings(), "counter", t.Counter,
			"dropped", t.Dropped, "skipped", t.Skipped)
	case logstore.Drops:
		d := b.Drops[i]
		counter = d.FirstCounter
		row.set("of", logstore.Kind(d.Of), "reason", logstore.Reason(d.Reason), "at", d.At,
			"count", d.Count, "first_counter", d.FirstCounter, "last_counter", d.LastCounter)
	case logstore.ReturnTrips:
		t := b.ReturnTrips[i]
		counter = t.Sent
		row.set("id", t.ID, "sent", t.Sent, "acknowledged", t.Acknowledged)
	case logstore.NTPs:
		n := b.NTPs[i]
		counter = n.CounterLo
		row.set("counter_lo", n.CounterLo, "counter_hi", n.CounterHi,
			"offset_ns", n.Offset_ns, "root_delay_ns", n.RootDelay_ns,
			"root_dispersion_ns", n.RootDispersion_ns, "frequency_ppt", n.Frequency_ppt,
			"skew_ppt", n.Skew_ppt, "stratum", n.Stratum, "leap", n.Leap,
			"reference_id", n.ReferenceID)
	}
	return counter, row
}

func (r *dumpRow) print(w io.Writer, h logstore.Header, asJSON bool) error {
	if !asJSON {
		fmt.Fprintf(w, "%s %d %d", r.Kind, r.Shard, r.Sequence)
		for i, name := range r.names {
			fmt.Fprintf(w, " %s=%s", name, r.values[i])
		}
		_, err := fmt.Fprintln(w)
		return err
	}
	r.Channel, r.Incarnation = h.Channel.String(), fmt.Sprintf("%x", h.Incarnation[:])
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	text = text[:len(text)-1]
	for i, name := range r.names {
		value, err := json.Marshal(r.values[i])
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, ",%q:%s", name, value)
	}
	_, err = w.Write(append(text, "}\n"...))
	return err
}
