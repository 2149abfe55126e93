package runs

import (
	"bytes"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// TableChange is a handler table, and the moment from which the server served it.
type TableChange struct {
	Served_utc_ns int64  `yaml:"served_utc_ns"`
	By            string `yaml:"by,omitempty"` // the person who changed the table, if known
	// Table is the text of the table, as package handlertable reads it.
	Table string `yaml:"table"`
}

// parseTable parses a table.yaml, which has all changes in order. The error wraps ErrRun.
func parseTable(text []byte, name string) ([]TableChange, error) {
	var changes []TableChange
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	if err := decoder.Decode(&changes); err != nil && len(bytes.TrimSpace(text)) > 0 {
		return nil, fmt.Errorf("read changes of the handler table %q: %w: %w", name, err, ErrRun)
	}
	return changes, nil
}

// encode returns the change as one item of the list in table.yaml. AddTable appends such items.
func (c TableChange) encode() ([]byte, error) {
	c.Table = strings.ReplaceAll(c.Table, "\r\n", "\n")
	return yaml.Marshal([]TableChange{c})
}
