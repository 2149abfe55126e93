package export

import (
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
)

// messageRow is a row of the table "messages": a captured message of which both ends are known.
type messageRow struct {
	FromNode    string `parquet:"from_node,dict"`
	FromProgram string `parquet:"from_program,dict"`
	FromSocket  uint64 `parquet:"from_socket"`
	ToNode      string `parquet:"to_node,dict"`
	ToProgram   string `parquet:"to_program,dict"`
	ToSocket    uint64 `parquet:"to_socket"`
	Bytes       int64  `parquet:"bytes"`
	SentLo      uint64 `parquet:"sent_lo"`
	SentHi      uint64 `parquet:"sent_hi"`
	ReceivedLo  uint64 `parquet:"received_lo"`
	ReceivedHi  uint64 `parquet:"received_hi"`
	Lo_cycles   *int64 `parquet:"lo_cycles,optional"`
	Hi_cycles   *int64 `parquet:"hi_cycles,optional"`
	Lo_ns       *int64 `parquet:"lo_ns,optional"`
	Hi_ns       *int64 `parquet:"hi_ns,optional"`
	Verdict     string `parquet:"verdict,dict"`
}

func newMessage(m *messages.Timed, ns analysis.Nanoseconds) messageRow {
	row := messageRow{
		FromNode: m.From.Node, FromProgram: m.From.Name, FromSocket: m.Send.Cookie,
		ToNode: m.To.Node, ToProgram: m.To.Name, ToSocket: m.Receive.Cookie,
		Bytes:  int64(m.Bytes),
		SentLo: m.Send.Lo_cycles, SentHi: m.Send.Hi_cycles,
		ReceivedLo: m.Receive.Lo_cycles, ReceivedHi: m.Receive.Hi_cycles,
	}
	if m.Unknown != nil {
		return row
	}
	d := m.Transfer
	row.Lo_cycles, row.Hi_cycles, row.Verdict = &d.Lo, &d.Hi, d.Verdict.String()
	length := analysis.Interval{Lo_cycles: d.Lo, Hi_cycles: d.Hi}
	if lo, hi, ok := ns.Of(length); ok {
		row.Lo_ns, row.Hi_ns = &lo, &hi
	}
	return row
}

// exportMessages writes the table "messages", and shows captured messages in the trace, if there
// are any.
func (x *exporter) exportMessages(kinds Kind, o *analysis.Options, answer *analysis.Answer) error {
	if kinds&(Parquet|CSV|Perfetto) == 0 {
		return nil
	}
	ns := answer.Reference.Nanoseconds()
	var rows []messageRow
	captured, err := eachCaptured(x.dir, o, answer.Reference.Node, func(m *messages.Timed) error {
		if kinds&(Parquet|CSV) != 0 {
			rows = append(rows, newMessage(m, ns))
		}
		if x.trace != nil {
			return x.trace.captured.add(m)
		}
		return nil
	})
	if err != nil || captured == nil {
		return err
	}
	note := fmt.Sprintf("%d of %d messages: both ends are known", captured.Matched, captured.Sent)
	if kinds&Parquet != 0 {
		w, err := x.beginFile("messages.parquet")
		if err != nil {
			return err
		}
		x.files[len(x.files)-1].Note = note
		about := []aboutRow{{"version", version}, {"run", x.dir.Run.Name},
			{"reference_node", answer.Reference.Node}}
		if err := writeTable(w, "messages", about, rows); err != nil {
			return err
		}
	}
	if kinds&CSV == 0 {
		return nil
	}
	w, err := x.beginFile("messages.csv")
	if err != nil {
		return err
	}
	x.files[len(x.files)-1].Note = note
	return writeMessages(csv.NewWriter(w), rows)
}

func writeMessages(w *csv.Writer, rows []messageRow) error {
	err := w.Write([]string{"from_node", "from_program", "from_socket", "to_node", "to_program",
		"to_socket", "bytes", "sent_lo", "sent_hi", "received_lo", "received_hi", "lo_cycles",
		"hi_cycles", "lo_ns", "hi_ns", "verdict"})
	whole := func(n uint64) string { return strconv.FormatUint(n, 10) }
	for _, r := range rows {
		err = errors.Join(err, w.Write([]string{r.FromNode, r.FromProgram, whole(r.FromSocket),
			r.ToNode, r.ToProgram, whole(r.ToSocket), decimal(&r.Bytes), whole(r.SentLo),
			whole(r.SentHi), whole(r.ReceivedLo), whole(r.ReceivedHi), decimal(r.Lo_cycles),
			decimal(r.Hi_cycles), decimal(r.Lo_ns), decimal(r.Hi_ns), r.Verdict}))
	}
	w.Flush()
	return errors.Join(err, w.Error())
}
