package bench

import (
	"context"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// Every row gives its figures, and no tuple is lost.
func TestGenMeasuresEveryRow(t *testing.T) {
	if seed.Race {
		t.Skip("times nothing that is worth it under the race detector")
	}
	rows, err := Gen(context.Background(), GenOptions{
		Repetitions: 1, Limit: time.Nanosecond, Tuples: 20_000,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, row := range rows {
		if row.Name != GenRows[i] || row.Wrong > 0 || row.Unaccount > 0 {
			t.Errorf("%+v", row)
		}
		if row.Absent == "" && len(row.Figures)+row.Disturbed != 1 {
			t.Errorf("%s: %d figures, %d disturbed", row.Name, len(row.Figures), row.Disturbed)
		}
	}
	if len(rows) != len(GenRows) {
		t.Errorf("%d rows, want %d", len(rows), len(GenRows))
	}
}

func TestGenRefusesUnknownRows(t *testing.T) {
	if _, err := Gen(context.Background(), GenOptions{Rows: []string{"nosuch"}}); err == nil {
		t.Error("an unknown row was measured")
	}
}
