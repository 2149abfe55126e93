package bench

import (
	"context"
	"math"
	"testing"
	"time"
)

func TestStoreMeasures(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	result, err := Store(context.Background(), StoreOptions{
		Repetitions: 1, Limit: time.Nanosecond, Dir: t.TempDir(), Logs: t.TempDir(),
		Sets: []string{"poisson1us/seq/q26", "bursts/random/q1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Rows) != 2 || result.Sustained.Events != 0 {
		t.Fatalf("%+v", result)
	}
	for _, row := range result.Rows {
		if len(row.Encode) != 1 || len(row.Decode) != 1 || !(row.Encode[0] > 0) ||
			!(row.Decode[0] > 0) || math.IsInf(row.Encode[0]+row.Decode[0], 0) {
			t.Errorf("%s: %v and %v GB/s", row.Name, row.Encode, row.Decode)
		}
		if row.BytesPerEvent < row.EntropyBytes || row.BytesPerEvent > 1.15*row.EntropyBytes {
			t.Errorf("%s: %.3f bytes an event, entropy %.3f",
				row.Name, row.BytesPerEvent, row.EntropyBytes)
		}
	}
}

func TestSustainedKeepsEveryEvent(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	row, err := logSustained(context.Background(),
		StoreOptions{Sustained: time.Second, Limit: time.Second, Dir: t.TempDir(),
			Logs: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if row.Events == 0 {
		t.Skip("this process may use 1 core")
	}
	if row.Logged+row.Dropped != row.Events {
		t.Errorf("%d events are in the log and %d were dropped, of %d",
			row.Logged, row.Dropped, row.Events)
	}
}

func TestUnknownSetIsRefused(t *testing.T) {
	if _, err := Store(context.Background(), StoreOptions{Repetitions: 1, Dir: t.TempDir(),
		Sets: []string{"loop/seq"}}); err == nil {
		t.Error("no error")
	}
}
