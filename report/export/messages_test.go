package export

import (
	"bytes"
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/cloudprofiler/cloudprofiler/analysis"
	"github.com/cloudprofiler/cloudprofiler/blackbox/messages"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// As CSV, the table "messages" has the columns of the Parquet table, with the same values.
func TestMessagesAsText(t *testing.T) {
	m := messages.Timed{Match: messages.Match{
		From: &messages.Program{Node: "a", Name: "client"},
		To:   &messages.Program{Node: "b", Name: "server"}, Bytes: 7,
		Send:    messages.Call{Cookie: 1 << 63, Lo_cycles: 11, Hi_cycles: 12, Early: true},
		Receive: messages.Call{Cookie: 3, Lo_cycles: 21, Hi_cycles: 22},
	}, Transfer: tscratio.Duration{Verdict: tscratio.Suspect}}
	m.Transfer.Lo, m.Transfer.Hi = -4, 3000
	unknown := m
	unknown.Unknown = errors.New("unknown")
	ns := analysis.Reference{FrequencyLo_hz: 2e9, FrequencyHi_hz: 2e9}.Nanoseconds()
	rows := []messageRow{newMessage(&m, ns), newMessage(&unknown, ns)}
	var text bytes.Buffer
	if err := writeMessages(csv.NewWriter(&text), rows); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(text.String(), "\n")
	var columns []string
	for _, c := range parquet.SchemaOf(messageRow{}).Fields() {
		columns = append(columns, c.Name())
	}
	if header := strings.Split(lines[0], ","); !slices.Equal(header, columns) {
		t.Errorf("header %v, want %v", header, columns)
	}
	for i, want := range []string{
		"a,client,9223372036854775808,b,server,3,7,11,12,21,22,-4,3000,-2,1500,suspect",
		"a,client,9223372036854775808,b,server,3,7,11,12,21,22,,,,,",
	} {
		if lines[i+1] != want {
			t.Errorf("line %d is %q, want %q", i+1, lines[i+1], want)
		}
	}
}
