package logstore

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

const shuffledFile = "v2-shuffled.cplog"

// shuffledBlocks returns the content of the file with shuffled ids: groups of 64, which begin at
// different places of their blocks. This content must not change: see shippedBlocks.
func shuffledBlocks() (blocks []*Block) {
	rng := rand.New(rand.NewPCG(5, 6))
	for shard, phase := range []int{0, 17, 63} {
		b := &Block{Incarnation: sampleIncarnation, Shard: shard}
		for i := range 8000 + shard {
			b.Events = append(b.Events, Event{
				Counter: 26<<50 + 26*uint64(i), ID: 1<<50 + uint64(i),
			})
		}
		for from := phase - 64; from < len(b.Events); from += 64 {
			group := b.Events[max(from, 0):min(from+64, len(b.Events))]
			rng.Shuffle(len(group), func(i, j int) {
				group[i].ID, group[j].ID = group[j].ID, group[i].ID
			})
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// Readers must return exactly what was written to the file with shuffled ids. These ids have a file
// of their own, because the file with all other kinds of columns is older. -update makes the file
// only if it does not exist.
func TestShippedShuffledColumnsAreRead(t *testing.T) {
	blocks := shuffledBlocks()
	path := filepath.Join("testdata", shuffledFile)
	if _, err := os.Stat(path); *update && os.IsNotExist(err) {
		then := Ended
		writeLogTo(t, path, sampleHeader(t), blocks, &then)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for _, b := range blocks {
		rows += len(b.Events)
	}
	// In a column of another kind, each id would take 6 bits: enough to choose among 64 ids.
	if limit := 6 * rows / 8; len(data) >= limit {
		t.Errorf("%d bytes for %d ids, want less than %d", len(data), rows, limit)
	}
	for name, read := range readers {
		got, damage, err := read(t, data)
		if err != nil || len(damage) > 0 {
			t.Fatalf("%s, %s: error %v, damage %v", path, name, err, damage)
		}
		diffRows(t, got, rowsOfAll(t, blocks))
	}
}
