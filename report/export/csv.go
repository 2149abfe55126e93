package export

import (
	"encoding/csv"
	"errors"
	"io"
	"strconv"
)

// csvWriter writes the tables as text. An unknown number is empty.
type csvWriter struct{ events, durations, edges, about, origins *csv.Writer }

func newCSV(w []io.Writer) *csvWriter {
	return &csvWriter{csv.NewWriter(w[0]), csv.NewWriter(w[1]), csv.NewWriter(w[2]),
		csv.NewWriter(w[3]), csv.NewWriter(w[4])}
}

func (c *csvWriter) begin(about []aboutRow) error {
	err := errors.Join(
		c.events.Write([]string{"tuple_id", "way", "path", "lo_cycles", "hi_cycles", "lo_ns",
			"hi_ns", "node", "channel", "point", "verdict"}),
		c.durations.Write([]string{"tuple_id", "way", "from_way", "from_point", "to_point",
			"from_node", "to_node", "kind", "critical", "lo_cycles", "hi_cycles", "lo_ns", "hi_ns",
			"scenario", "verdict"}),
		c.origins.Write([]string{"way", "from_way", "from_point", "to_point", "kind",
			"earlier_cycles", "later_cycles"}),
		c.edges.Write([]string{"path", "from_point", "to_point", "kind"}),
		c.about.Write([]string{"key", "value"}))
	for _, a := range about {
		err = errors.Join(err, c.about.Write([]string{a.Key, a.Value}))
	}
	return err
}

func (c *csvWriter) event(e *eventRow) error {
	return c.events.Write([]string{strconv.FormatUint(e.TupleID, 10), decimal(&e.Way),
		strconv.Itoa(int(e.Path)), decimal(e.Lo_cycles), decimal(e.Hi_cycles), decimal(e.Lo_ns),
		decimal(e.Hi_ns), e.Node, e.Channel, e.Point, e.Verdict})
}

func (c *csvWriter) duration(d *durationRow) error {
	return c.durations.Write([]string{strconv.FormatUint(d.TupleID, 10), decimal(&d.Way),
		decimal(&d.FromWay), d.From, d.To, d.FromNode, d.ToNode, d.Kind, d.Critical,
		decimal(&d.Lo_cycles), decimal(&d.Hi_cycles), decimal(d.Lo_ns), decimal(d.Hi_ns),
		d.Scenario, d.Verdict})
}

func (c *csvWriter) origin(o *originRow) error {
	return c.origins.Write([]string{decimal(&o.Way), decimal(&o.FromWay), o.From, o.To, o.Kind,
		decimal(&o.Earlier), decimal(&o.Later)})
}

func decimal(v *int64) string {
	if v == nil {
		return ""
	}
	return strconv.FormatInt(*v, 10)
}

func (*csvWriter) cut() error { return nil }

func (c *csvWriter) finish(edges []edgeRow) (err error) {
	for _, e := range edges {
		err = errors.Join(err, c.edges.Write([]string{strconv.Itoa(int(e.Path)), e.From, e.To,
			e.Kind}))
	}
	for _, w := range []*csv.Writer{c.events, c.durations, c.edges, c.about, c.origins} {
		w.Flush()
		err = errors.Join(err, w.Error())
	}
	return err
}

func (*csvWriter) close() error { return nil }
