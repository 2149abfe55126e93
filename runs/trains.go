package runs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/internal/journal"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// While a run is open, its trains are appended to a journal (FORMAT.md). Complete makes the files
// of relations from the journal.

const journalFile = "relations.journal"

var journalFormat = journal.Format{Magic: "CPRUNREL", Version: 1}

// gatheredTrains is the journal of a draft.
type gatheredTrains struct {
	journal *journal.Journal
	pairs   map[counterPair]*chain
	trains  int
}

// counterPair are the two counters of a pair, by their nodes' names and epochs.
type counterPair struct{ a, b, epochA, epochB string }

func countersOf(p *tscratio.Pair) counterPair {
	return counterPair{p.A.Name, p.B.Name, p.A.Epoch, p.B.Epoch}
}

// A chain finds all blocks of one pair in the journal. It holds only the offset of the pair's last
// block, because each block contains the offset of the pair's block before it.
type chain struct{ last int64 }

// add appends a block with a pair's new trains.
func (g *gatheredTrains) add(p *tscratio.Pair) {
	key := countersOf(p)
	c := g.pairs[key]
	if c == nil {
		c = &chain{}
		g.pairs[key] = c
	}
	before := binary.LittleEndian.AppendUint64(nil, uint64(c.last))
	c.last = g.journal.Append(before, p.Encode())
	g.trains += p.Trains()
}

// readPair reads a pair's blocks and joins them.
func (g *gatheredTrains) readPair(c *chain) (*tscratio.Pair, error) {
	var parts []*tscratio.Pair
	for at := c.last; at > 0; {
		content, err := g.journal.Block(at)
		if err != nil {
			return nil, err
		}
		p, before, err := decodeBlock(content)
		if err != nil {
			return nil, err
		}
		if before >= at {
			return nil, fmt.Errorf("block at byte %d names a later one", at)
		}
		parts, at = append(parts, p), before
	}
	slices.Reverse(parts)
	all := parts[0]
	for _, p := range parts[1:] {
		if err := all.Join(p); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func decodeBlock(content []byte) (p *tscratio.Pair, before int64, err error) {
	if len(content) < 8 {
		return nil, 0, fmt.Errorf("block of %d bytes", len(content))
	}
	p, err = tscratio.DecodePair(content[8:])
	return p, int64(binary.LittleEndian.Uint64(content)), err
}

// openGathered opens the journal of a run that is continued. If there is none, it returns nil.
func openGathered(root *os.Root) (*gatheredTrains, error) {
	g := &gatheredTrains{pairs: map[counterPair]*chain{}}
	var err error
	g.journal, err = journal.Open(root, journalFile, journalFormat,
		func(at int64, content []byte) error {
			p, _, err := decodeBlock(content)
			if err != nil {
				return err
			}
			g.pairs[countersOf(p)] = &chain{at}
			g.trains += p.Trains()
			return nil
		})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return g, err
}

// newGathered makes a journal. A run that an earlier version began has relations already: the
// journal begins with these.
func newGathered(d *Draft) (*gatheredTrains, error) {
	temp := journalFile + incompleteEnd
	j, err := journal.Create(d.root, temp, journalFormat)
	if err != nil {
		return nil, err
	}
	g := &gatheredTrains{journal: j, pairs: map[counterPair]*chain{}}
	reader := &Directory{Path: d.path, Run: d.run, root: d.root}
	reader.eachRelation(g.add)
	if err := errors.Join(j.Flush(), d.root.Rename(temp, journalFile)); err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return g, nil
}

// AddTrains appends new trains of pairs to the run. A pair without trains adds only a new
// description of its counters. If AddTrains cannot write, it keeps the trains, and the next call
// writes them.
func (d *Draft) AddTrains(pairs []*tscratio.Pair) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var err error
	if d.gathered == nil && len(pairs) == 0 {
		return nil
	}
	if d.gathered == nil {
		if d.gathered, err = newGathered(d); err != nil {
			return fmt.Errorf("add trains: %w", err)
		}
	}
	for _, p := range pairs {
		if d.gathered.pairs[countersOf(p)] == nil && d.pairPath(p.A, p.B) == "" {
			err = errors.Join(err, notInRun(p))
			continue
		}
		d.gathered.add(p)
		err = errors.Join(err, d.gathered.journal.FlushMuch())
	}
	if err := errors.Join(err, d.gathered.journal.Flush()); err != nil {
		return fmt.Errorf("add trains: %w", err)
	}
	return nil
}

func notInRun(p *tscratio.Pair) error {
	return fmt.Errorf("relation of %q and %q: epochs %q and %q are not both in the run: add them "+
		"to its nodes first", p.A.Name, p.B.Name, p.A.Epoch, p.B.Epoch)
}

// Gathered returns the number of pairs and of trains that AddTrains added.
func (d *Draft) Gathered() (pairs, trains int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gathered == nil {
		return 0, 0
	}
	return len(d.gathered.pairs), d.gathered.trains
}

// Cut returns how many bytes Resume has cut off the end of the journal. They are trains that a
// killed process has not written completely.
func (d *Draft) Cut() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.gathered == nil {
		return 0
	}
	return d.gathered.journal.Cut()
}

// Takes reports whether the run includes both counters.
func (d *Draft) Takes(a, b tscratio.Node) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.pairPath(a, b) != ""
}

// pairPath does what Run.PairPath does, but it looks nodes up in d.places: a large fleet has tens
// of thousands of pairs. The caller has locked d.mu.
func (d *Draft) pairPath(a, b tscratio.Node) string {
	if d.places == nil {
		d.places = make(map[string]int, len(d.run.Nodes))
		for i := range d.run.Nodes {
			d.places[d.run.Nodes[i].Name] = i
		}
	}
	find := func(name string) (n Node) {
		if i, ok := d.places[name]; ok {
			n = d.run.Nodes[i]
		}
		return n
	}
	return pairPath(a, b, find(a.Name), find(b.Name))
}

// putGathered writes the relations of all pairs of the journal, one after the other, and then
// removes the journal. It returns the relations that could not be written.
func (d *Draft) putGathered() (missing []Missing, err error) {
	if d.gathered == nil {
		return nil, nil
	}
	for key, c := range d.gathered.pairs {
		p, err := d.gathered.readPair(c)
		if err == nil && p.Trains() > 0 {
			p.Prune()
			err = d.putRelation(p)
		}
		if err != nil {
			missing = append(missing, Missing{RelationPath(key.a, key.b), err.Error()})
		}
	}
	slices.SortFunc(missing, func(x, y Missing) int { return strings.Compare(x.Part, y.Part) })
	err = d.gathered.journal.Close()
	if len(missing) == 0 { // otherwise keep the journal: somebody may still be able to use it
		err = errors.Join(err, d.root.Remove(journalFile))
	}
	d.gathered = nil
	return missing, err
}

// readJournal reads the pairs from the journal of an incomplete run. The keys of the result are the
// paths that the pairs' relations have in a complete run.
func (d *Directory) readJournal() (map[string]*tscratio.Pair, error) {
	file, _, err := openFile(d.root, journalFile)
	if errors.Is(err, fs.ErrNotExist) || d.Complete {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	pairs := map[string]*tscratio.Pair{}
	_, err = journal.Read(file, journalFormat, func(_ int64, content []byte) error {
		p, _, err := decodeBlock(content)
		if err != nil {
			return err
		}
		name := d.Run.PairPath(p.A, p.B)
		switch known := pairs[name]; {
		case name == "":
			return notInRun(p)
		case known == nil:
			pairs[name] = p
		default:
			return known.Join(p)
		}
		return nil
	})
	maps.DeleteFunc(pairs, func(_ string, p *tscratio.Pair) bool { return p.Trains() == 0 })
	return pairs, err
}
