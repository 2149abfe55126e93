package runs

import (
	"cmp"
	"os"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// Traffic says that two nodes logged the same tuples. A is before B in the order of names.
type Traffic struct {
	A      string `json:"a"`
	B      string `json:"b"`
	Tuples int    `json:"tuples"` // how many, among the tuples that were looked at
}

const (
	// Traffic reads at most maxTrafficEvents events of a run, the same number from each node. If
	// that number is less than minTrafficEvents, Traffic reads minTrafficEvents from each node.
	maxTrafficEvents = 50_000_000
	minTrafficEvents = 10_000

	// maxTrafficTuples is how many tuples Traffic remembers. If there are more, it looks only at
	// every second tuple, or at every fourth, and so on. The ids of the tuples decide at which
	// tuples it looks.
	maxTrafficTuples = 1 << 18

	// maxTrafficNodes is the largest number of nodes that may log one id. If more nodes log an id,
	// it is hardly the id of one tuple, and does not count.
	maxTrafficNodes = 16
)

// Traffic returns the pairs of nodes between which tuples travelled, as far as ids in the logs
// show. The pair with the most tuples comes first. The method Traffic reads only the beginning of
// each node's logs. It does not follow tuples that get another id on their way, and leaves out logs
// that it cannot read.
func (d *Directory) Traffic() []Traffic {
	logs, _ := d.Logs()
	t := traffic{nodes: map[uint64][]uint16{}}
	share := max(minTrafficEvents, maxTrafficEvents/max(1, len(logs)))
	for i, l := range logs[:min(len(logs), 1<<16)] {
		for _, segment := range l.Segments {
			// Divide the node's share among all its segments, because each ring of the node has
			// segments of its own.
			t.read(segment.Path, uint16(i), share/len(l.Segments))
		}
	}
	count := map[[2]uint16]int{}
	for _, of := range t.nodes {
		if len(of) > maxTrafficNodes {
			continue
		}
		for i, a := range of {
			for _, b := range of[i+1:] {
				count[[2]uint16{a, b}]++ // logs are in the order of names
			}
		}
	}
	all := make([]Traffic, 0, len(count))
	for pair, n := range count {
		all = append(all, Traffic{logs[pair[0]].Node, logs[pair[1]].Node, n})
	}
	slices.SortFunc(all, func(x, y Traffic) int {
		return cmp.Or(cmp.Compare(y.Tuples, x.Tuples), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
	return all
}

// traffic remembers which nodes logged a tuple.
type traffic struct {
	nodes map[uint64][]uint16 // by tuple; each list in order
	every int                 // of 2^every tuples, one is looked at
}

// isChosen reports whether a tuple is looked at. Ids are often consecutive numbers, so isChosen
// mixes their bits first.
func (t *traffic) isChosen(id uint64) bool {
	return id != 0 && (id*0x9e3779b97f4a7c15)>>40&(1<<t.every-1) == 0
}

// read notes the ids of the first events of a log file, at most the given number.
func (t *traffic) read(path string, node uint16, most int) {
	file, err := os.Open(path)
	if err != nil {
		return
	}
	defer file.Close()
	reader, err := logstore.NewReader(file, path)
	for seen := 0; err == nil && seen < most; {
		var block *logstore.Block
		if block, err = reader.Next(); err != nil {
			return
		}
		seen += len(block.Events)
		for _, e := range block.Events {
			if t.isChosen(e.ID) {
				t.note(e.ID, node)
			}
		}
	}
}

func (t *traffic) note(id uint64, node uint16) {
	of, known := t.nodes[id]
	if len(of) > maxTrafficNodes || len(of) > 0 && of[len(of)-1] == node {
		return
	}
	t.nodes[id] = append(of, node)
	if known || len(t.nodes) <= maxTrafficTuples {
		return
	}
	t.every++
	for id := range t.nodes {
		if !t.isChosen(id) {
			delete(t.nodes, id)
		}
	}
}
