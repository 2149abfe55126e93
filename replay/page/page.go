package page

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/cloudprofiler/cloudprofiler/replay"
)

// page is a file that the command "make web" builds from web/. A test checks that it was built from
// the present source.
//
//go:embed page.html
var page []byte

// place is the content of a script element that the browser does not run. The data replace it.
var place = []byte("{{replay.Data}}")

// MaxEvents is the largest number of events on a page.
const MaxEvents = 5000

// ErrTooMany is returned for a history with more than MaxEvents events.
var ErrTooMany = errors.New("too many events for a page")

// Data is what a page shows. web/src/replay.ts has the same type.
type Data struct {
	Version  int      `json:"version"`
	Title    string   `json:"title"`
	Hz       float64  `json:"hz"` // of the reference; 0: not known, or no times
	Timed    bool     `json:"timed"`
	Nodes    []string `json:"nodes"`
	Channels []string `json:"channels"`
	// Events are [node, channel, id as text, low end, high end]. Ends are in cycles since the
	// smallest low end.
	Events [][5]any `json:"events"`
	// Need has a list of pairs [node, number] for each event: so many events of the pair's node are
	// before the event. A pair is left out if the number is the same as for the previous event of
	// the event's own node.
	Need     [][][2]int `json:"need"`
	Messages [][2]int   `json:"messages"`
	More     bool       `json:"more"` // the run has more events

	Summary *replay.Summary `json:"summary"` // nil: a trace of another program
	Orders  string          `json:"orders"`  // how many orders there are, in words
	Notes   []string        `json:"notes"`   // what makes the replay doubtful

	Question string     `json:"question"`
	Found    []int      `json:"found"`  // the order in which the question's condition holds
	States   []string   `json:"states"` // names
	Values   [][]string `json:"values"` // values of the states after each event of Found
}

// Options contain what a page shows in addition to the history.
type Options struct {
	Title    string
	Hz       float64
	Orders   string
	Notes    []string
	Question string
	Found    []int
	States   []string
	Values   [][]string
}

// Of makes the data of a page. The summary may be nil.
func Of(h *replay.History, summary *replay.Summary, o Options) *Data {
	d := &Data{
		Version: 1, Title: o.Title, Hz: o.Hz, Timed: h.Timed(), Nodes: h.Nodes, More: h.More,
		Messages: append([][2]int{}, h.Messages...), Summary: summary,
		Orders: o.Orders, Notes: o.Notes,
		Question: o.Question, Found: o.Found, States: o.States, Values: o.Values,
	}
	for _, c := range h.Channels {
		d.Channels = append(d.Channels, c.Name)
	}
	zero := ^uint64(0)
	for i := range h.Events {
		zero = min(zero, h.Events[i].Lo_cycles)
	}
	orders := h.Orders()
	last := make([][]int32, len(h.Nodes))
	for i := range h.Events {
		e := &h.Events[i]
		d.Events = append(d.Events, [5]any{
			e.Node, e.Channel, strconv.FormatUint(e.ID, 10), e.Lo_cycles - zero,
			e.Hi_cycles - zero,
		})
		need := orders.Need(i)
		pairs := [][2]int{}
		for n, count := range need {
			if before := last[e.Node]; n != int(e.Node) &&
				(before == nil && count > 0 || before != nil && count != before[n]) {
				pairs = append(pairs, [2]int{n, int(count)})
			}
		}
		last[e.Node] = need
		d.Need = append(d.Need, pairs)
	}
	return d
}

// Write writes a page. The same data give the same bytes.
func Write(w io.Writer, d *Data) error {
	if len(d.Events) > MaxEvents {
		return fmt.Errorf("write replay: %d events, at most %d: choose a shorter time: %w",
			len(d.Events), MaxEvents, ErrTooMany)
	}
	// encoding/json writes <, > and & as \u003c, \u003e and \u0026. So no name can end the script
	// element.
	text, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("write replay: %w", err)
	}
	head, tail, found := bytes.Cut(page, place)
	if !found {
		return fmt.Errorf("write replay: the embedded page has no place for data: run make web")
	}
	for _, part := range [][]byte{head, text, tail} {
		if _, err := w.Write(part); err != nil {
			return fmt.Errorf("write replay: %w", err)
		}
	}
	return nil
}
