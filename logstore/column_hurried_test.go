package logstore

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/bench/dataset"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

// An encoder that hurries writes at most 0.8 bytes per event more than the event's entropy. Random
// ids are copied as they are: any attempt to pack them would only take time.
func TestHurriedBlocksStaySmall(t *testing.T) {
	for _, name := range dataset.Names() {
		t.Run(name, func(t *testing.T) {
			s := newSet(t, name, 1)
			block := Block{Events: events(s, MaxRows), Hurried: true}
			counter_bits, id_bits := s.EntropyBits()
			if math.IsNaN(counter_bits) { // no formula
				var plugIn dataset.PlugIn
				counters := make([]uint64, MaxRows)
				for i, e := range block.Events {
					counters[i] = e.Counter
				}
				plugIn.Observe(counters)
				counter_bits = plugIn.Bits()
			}
			coded := new(encoder).appendBlock(nil, &block, s.Quantum)
			got, entropy := float64(len(coded))/MaxRows, (counter_bits+id_bits)/8
			if got > entropy+0.8 {
				t.Errorf("%.3f bytes an event, entropy %.3f", got, entropy)
			}
			if !strings.Contains(name, "/random/") {
				return
			}
			ids := coded[len(coded)-8*MaxRows-2:]
			if ids[0] != columnPlain || ids[1] != numbersWhole {
				t.Errorf("random ids are in a column of kind %d with numbers of coding %d, "+
					"want %d and %d", ids[0], ids[1], columnPlain, numbersWhole)
			}
			last := block.Events[MaxRows-1].ID
			if id := binary.LittleEndian.Uint64(ids[len(ids)-8:]); id != last {
				t.Errorf("the last id is %#x, was %#x", id, last)
			}
		})
	}
}

// Random ids of 40 bits are packed: as differences, they take 41 bits each instead of 64.
func TestHurriedPacksIDsThatAreNotWide(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed.Of(t), 7))
	ids := make([]uint64, MaxRows)
	fill(ids, func(int) uint64 { return 1<<50 + rng.Uint64N(1<<40) })
	e := columnEncoder{hurried: true}
	coded := e.appendValues(nil, columnView{words: ids, width: 1, rows: len(ids)})
	if got, limit := len(coded), 42*MaxRows/8+100; got > limit {
		t.Errorf("%d bytes for %d ids of 40 bits, at most %d", got, len(ids), limit)
	}
}
