package handlers

import (
	"testing"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

func TestLogAtKeepsTheGivenStamp(t *testing.T) {
	c := openTest(t, false, Options{Handler: "buffered"})
	c.LogAt(1000, 7)
	before := asm.Counter()
	c.Log(8)
	c.LogAt(2000, 9)
	got := readRecords(t, c)[0]
	if len(got) != 3 || got[0] != (ring.Record{Counter: 1000, ID: 7}) ||
		got[2] != (ring.Record{Counter: 2000, ID: 9}) {
		t.Fatalf("records %v", got)
	}
	if got[1].ID != 8 || got[1].Counter < before {
		t.Errorf("Log between two LogAt wrote %v, want a reading from %d on", got[1], before)
	}
}

func TestLogAtThinsOutAsTheHandlerSays(t *testing.T) {
	c := openTest(t, false, Options{Handler: "downsample", Params: map[string]any{"n": 3}})
	for i := range uint64(9) {
		c.LogAt(1000+i, i)
	}
	if got := readRecords(t, c)[0]; len(got) != 3 {
		t.Errorf("records %v, want every third", got)
	}
}

func TestLogAtRefuses(t *testing.T) {
	c := openTest(t, false, Options{})
	c.LogAt(0, 1)
	c.LogAt(1<<63, 2)
	shared := openTest(t, true, Options{})
	shared.LogAt(5, 3)
	for _, c := range []*Channel{c, shared} {
		for _, shard := range readRecords(t, c) {
			if len(shard) > 0 {
				t.Errorf("records %v, want none", shard)
			}
		}
	}
	var closed *Channel
	closed.LogAt(5, 3)
}
