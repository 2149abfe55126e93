package main

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/generator"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// The sink takes tuples only while there is room. Every tuple that it took comes out of the stream
// once, under its id. A search relies on both.
func TestEveryTupleComesOut(t *testing.T) {
	b, err := startBroker(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	defer b.stop()
	tuples := make([]generator.Tuple, 5*maxPending)
	want := make([]uint64, len(tuples))
	for i := range tuples {
		want[i] = uint64(i) + 1<<40
		tuples[i] = generator.Tuple{ID: want[i], Body: []byte("body")}
	}
	came := make(chan uint64, 2*len(tuples))
	consuming, err := b.consume(t.Context(), func(ids ...uint64) {
		for _, id := range ids {
			came <- id
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer consuming.Stop()
	for left := tuples; len(left) > 0; {
		taken, err := b.publish(left)
		if err != nil {
			t.Fatal(err)
		}
		if left = left[taken:]; taken == 0 {
			<-b.publisher.PublishAsyncComplete() // there is room again
		}
	}
	var got []uint64
	for late := time.After(time.Minute); len(got) < len(want); {
		select {
		case id := <-came:
			got = append(got, id)
		case <-late:
			t.Fatalf("%d tuples of %d came out in a minute", len(got), len(want))
		}
	}
	consuming.Stop()
	<-consuming.Closed()
	if slices.Sort(got); !slices.Equal(got, want) || len(came) > 0 {
		t.Fatalf("%d tuples came out, and %d more: want each of the %d that were sent, once",
			len(got), len(came), len(want))
	}
}
