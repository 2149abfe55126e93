package ring

import (
	"errors"
	"testing"
)

// The number of counted events is the sum over the cells of all shards. No cell may be damaged.
func TestCountedIsTheSumOfAllCells(t *testing.T) {
	p := newRingIn(t, t.TempDir(), 4, manyWriters)
	c := drain(t, p.Path)
	want := uint64(0)
	for i := range p.Shards {
		for k, cell := range []*uint64{p.Shards[i].Counter(), p.Shards[i].CounterAlone()} {
			*cell = 1 << (8*i + 4*k)
			want += *cell
		}
	}
	if n, err := c.Counted(); n != want || err != nil || len(p.Shards) != 4 {
		t.Errorf("%d shards, %#x events counted, want %#x; %v", len(p.Shards), n, want, err)
	}
	for i := range p.Shards {
		for _, cell := range []*uint64{p.Shards[i].Counter(), p.Shards[i].CounterAlone()} {
			was := *cell
			*cell = MaxEvents + 1
			if _, err := c.Counted(); !errors.Is(err, ErrDamaged) {
				t.Errorf("shard %d: %v", i, err)
			}
			*cell = was
		}
	}
}

// In a ring of version 2, only the cell of the first shard counts events. A drainer returns that
// cell's count.
func TestCountedOfARingOfVersion2(t *testing.T) {
	p := newRing(t, manyWriters)
	p.header.identity.version = 2
	p.header.identity.checksum = p.header.identity.sum()
	*p.Shards[0].Counter() = 7
	c := drain(t, p.Path)
	if n, err := c.Counted(); n != 7 || err != nil {
		t.Errorf("%d events counted, want 7; %v", n, err)
	}
}
