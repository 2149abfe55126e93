package coordinator

import (
	"fmt"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/handlertable"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// tableState is the handler table that the server serves.
type tableState struct {
	Generation uint64 `json:"generation,string"` // 0: no table yet
	Text       string `json:"text"`
}

// TableRequest is the argument of AskSetTable and the answer to AskTable.
type TableRequest struct {
	Text string `json:"text"`

	// Base is the generation of the table that the user changed into Text. If the server serves
	// another generation by now, it refuses the request. If Base is 0, the server replaces any
	// table.
	Base uint64 `json:"base,string"`

	By string `json:"by,omitempty"`

	// Uses is only set in the answer to AskTable. It has an entry for each connected node that uses
	// tables.
	Uses []TableUse `json:"uses,omitempty"`
}

// TableUse is what a node reports: which handler table it uses, and for how many channels.
type TableUse struct {
	Node       string `json:"node"`
	Generation uint64 `json:"generation,string"`
	Error      string `json:"error,omitempty"`
	// Matched has, for each rule of that table, the number of the node's channels to which the rule
	// applied when the table arrived. It is nil if the node does not say.
	Matched []int `json:"matched,omitempty"`
}

// tableNow answers AskTable.
func (c *core) tableNow() TableRequest {
	now := TableRequest{Text: c.table.Text, Base: c.table.Generation}
	for _, n := range c.nodesByName() {
		if n.isAlive() && n.can(control.CanTable) {
			now.Uses = append(now.Uses, TableUse{n.name(), n.generation, n.tableError,
				n.matchCounts})
		}
	}
	return now
}

// errStale is returned for a table that was made from an outdated generation.
var errStale = fmt.Errorf("somebody else changed the table: get it again")

// setTable checks a table and serves it.
func (c *core) setTable(r TableRequest) error {
	if r.Base != 0 && r.Base != c.table.Generation {
		return fmt.Errorf("generation %d is served, this was made from %d: %w",
			c.table.Generation, r.Base, errStale)
	}
	if len(r.Text) > control.MaxMessageBytes/2 {
		return fmt.Errorf("table of %d bytes, more than %d",
			len(r.Text), control.MaxMessageBytes/2)
	}
	if _, err := handlertable.Parse([]byte(r.Text), "table"); err != nil {
		return err
	}
	next := tableState{c.table.Generation + 1, r.Text}
	if err := c.store.putTable(next); err != nil {
		return err // a restarted server must serve the same table
	}
	c.table = next
	c.log.Info("handler table changed", "generation", next.Generation, "by", r.By)
	if c.run != nil && c.run.takesTrains() {
		change := runs.TableChange{Served_utc_ns: c.now().UnixNano(), By: r.By, Table: r.Text}
		if err := c.run.draft.AddTable(change); err != nil {
			c.run.lacks("table.yaml", err.Error())
		}
	}
	for _, n := range c.nodesByName() {
		c.pushTable(n)
	}
	return nil
}

func (c *core) pushTable(n *node) {
	if c.table.Generation == 0 || !n.isAlive() || !n.can(control.CanTable) {
		return
	}
	m := &control.Table{Generation: c.table.Generation, Text: []byte(c.table.Text)}
	c.ask(n, m, c.config.AnswerLimit, "the handler table", func(answer control.Message, err error) {
		state, ok := answer.(*control.TableState)
		switch {
		case err != nil:
			n.tableError = err.Error()
		case !ok:
			n.tableError = fmt.Sprintf("answers the table with %s", answer.Kind())
		default:
			n.generation, n.tableError, n.matchCounts = state.Generation, state.Error, state.Matched
		}
		if n.tableError != "" {
			c.log.Warn("handler table is not applied",
				"node", n.name(), "generation", m.Generation, "error", n.tableError)
		}
	})
}
