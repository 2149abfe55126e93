package coordinator

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/journal"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// The journal contains what the server knows of nodes and pairs (FORMAT.md). The server appends
// each change to it. When the journal has become much longer than the state that it describes, the
// server writes a new one.

const journalFile = "journal"

var journalFormat = journal.Format{Magic: "CPSERVER", Version: 2}

// These are the kinds of the journal's blocks. A block's first byte is its kind.
const (
	blockPair       byte = 1 // all that is known of a pair; replaces what earlier blocks say
	blockTrains     byte = 2 // new trains of a pair
	blockForgetPair byte = 3
	blockNode       byte = 4 // all that is known of a node; replaces what earlier blocks say
	blockHeard      byte = 5 // when nodes were heard, and which of their reports are stored
	blockForgetNode byte = 6
)

// notedNode is the form in which a node is written to disk.
type notedNode struct {
	Registered control.Register `json:"registered"`
	Key        string           `json:"public_key,omitempty"`
	Joined     time.Time        `json:"joined"`
	Heard      time.Time        `json:"heard"`
	Left       string           `json:"left,omitempty"`
	Restarts   int              `json:"restarts"`
	Reports    uint64           `json:"reports,string"`
}

// notedHeard is the form in which the server writes the fields of a node that change all the time.
type notedHeard struct {
	Name    string    `json:"name"`
	Heard   time.Time `json:"heard"`
	Reports uint64    `json:"reports,string"`
}

// notedPair is the content of the line that precedes an encoded pair on disk. Its numbers count all
// trains of the pair, also those that the server no longer keeps.
type notedPair struct {
	ReadA     uint64    `json:"read_a_cycles,string"`
	ReadB     uint64    `json:"read_b_cycles,string"`
	At        time.Time `json:"at"`
	Trains    uint64    `json:"trains,string"`
	Exchanges uint64    `json:"exchanges,string"`
	Lost      uint64    `json:"lost,string"`
	Kernel    uint64    `json:"kernel_stamps,string"`
	Stamps    uint64    `json:"stamps,string"`
}

// notedKey names a pair that is forgotten.
type notedKey struct {
	A      string `json:"a"`
	B      string `json:"b"`
	EpochA string `json:"epoch_a"`
	EpochB string `json:"epoch_b"`
}

// append adds a block whose content is JSON, and perhaps a pair after it.
func (s *Store) append(kind byte, v any, pair *tscratio.Pair) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if pair == nil {
		s.journal.Append([]byte{kind}, text)
	} else {
		s.journal.Append([]byte{kind}, text, []byte{'\n'}, pair.Encode())
	}
	return nil
}

func (p *pair) noted() notedPair {
	return notedPair{
		p.readA, p.readB, p.reportedAt, p.trains, p.exchanges, p.lost, p.kernel, p.stamps,
	}
}

func (n *node) noted() notedNode {
	return notedNode{n.registered, n.key, n.joined, n.lastHeard, n.goneReason, n.restarts,
		n.reports}
}

// save writes all changes to disk: first trains to the run, then trains to the journal, and last
// the numbers of the nodes' reports. So no number is ever stored before the trains of its report.
// If it cannot write something, the next call of save tries again.
func (c *core) save() error {
	var dirty []*pair
	var toRun []*tscratio.Pair
	for _, key := range c.sortedPairs(func(p *pair) bool { return p.mustSave }) {
		p := c.pairs[key]
		dirty = append(dirty, p)
		if p.unsavedTrains == nil { // only the descriptions of the counters changed
			p.unsavedTrains = p.liveTrains.Since(p.liveTrains.Trains())
		}
		if p.inRun {
			toRun = append(toRun, p.unsavedTrains)
		}
	}
	var failed error
	if c.run != nil && !c.run.isCompleting {
		failed = c.run.draft.AddTrains(toRun)
	}
	s := c.store
	for _, p := range dirty {
		if err := s.append(blockTrains, p.noted(), p.unsavedTrains); err != nil {
			return err
		}
		p.unsavedTrains, p.mustSave = nil, false
		if failed == nil {
			failed = s.journal.FlushMuch()
		}
	}
	var heard []notedHeard
	for _, n := range c.nodesByName() {
		if n.mustSave {
			if err := s.append(blockNode, n.noted(), nil); err != nil {
				return err
			}
			n.mustSave = false
		} else if _, ok := c.acks[n.peer]; ok {
			heard = append(heard, notedHeard{n.name(), n.lastHeard, n.reports})
		}
	}
	if len(heard) > 0 {
		if err := s.append(blockHeard, heard, nil); err != nil {
			return err
		}
	}
	if failed != nil { // the next call writes all of this
		return failed
	}
	if err := s.journal.Flush(); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if s.journal.Size() > minJournal+longJournal*s.whole {
		return c.rewrite()
	}
	return nil
}

// The server writes a new journal when the present one has at least minJournal bytes, and is at
// least longJournal times as long as when it was new. So in the long run, the time for rewriting
// stays in a fixed proportion to the time for appending.
const (
	minJournal  = 4 << 20
	longJournal = 3
)

// rewrite replaces the journal by one that contains only what is known now.
func (c *core) rewrite() error {
	s := c.store
	const temp = journalFile + ".new"
	anew, err := journal.Create(s.root, temp, journalFormat)
	if err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	old := s.journal
	s.journal = anew
	for _, key := range c.sortedPairs(nil) {
		p := c.pairs[key]
		err = errors.Join(err, s.append(blockPair, p.noted(), p.liveTrains))
		err = errors.Join(err, anew.FlushMuch())
	}
	for _, n := range c.nodesByName() {
		err = errors.Join(err, s.append(blockNode, n.noted(), nil))
	}
	err = errors.Join(err, anew.Flush())
	if err == nil {
		err = s.root.Rename(temp, journalFile)
	}
	if err != nil {
		s.journal = old
		return errors.Join(fmt.Errorf("write state: %w", err), anew.Close())
	}
	s.whole = anew.Size()
	if old != nil {
		return old.Close()
	}
	return nil
}

// readJournal reads the journal. It returns the nodes, and false if there is no journal.
func (c *core) readJournal() (map[string]notedNode, bool, error) {
	nodes := map[string]notedNode{}
	opened, err := journal.Open(c.store.root, journalFile, journalFormat,
		func(at int64, content []byte) error {
			if err := c.restoreBlock(content, nodes); err != nil {
				c.log.Error("skip a block of the state", "byte", at, "error", err)
			}
			return nil
		})
	if errors.Is(err, fs.ErrNotExist) {
		return nodes, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read state: %w: mend it, or remove it", err)
	}
	if c.store.journal != nil { // of an earlier core
		c.store.journal.Close()
	}
	c.store.journal, c.store.whole = opened, opened.Size()
	if n := opened.Cut(); n > 0 {
		c.log.Warn("the state ends in the middle of a block, because a server was killed: "+
			"the block is cut off", "bytes", n)
	}
	return nodes, true, nil
}

// restoreBlock applies one block of the journal.
func (c *core) restoreBlock(content []byte, nodes map[string]notedNode) error {
	if len(content) == 0 {
		return errors.New("block is empty")
	}
	text := content[1:]
	switch kind := content[0]; kind {
	case blockPair, blockTrains:
		return c.restorePair(text, kind == blockTrains)
	case blockForgetPair:
		var k notedKey
		if err := json.Unmarshal(text, &k); err != nil {
			return err
		}
		delete(c.pairs, pairKey{k.A, k.B, k.EpochA, k.EpochB})
	case blockNode:
		var n notedNode
		if err := json.Unmarshal(text, &n); err != nil {
			return err
		}
		nodes[n.Registered.Name] = n
	case blockHeard:
		var heard []notedHeard
		if err := json.Unmarshal(text, &heard); err != nil {
			return err
		}
		for _, h := range heard {
			if n, ok := nodes[h.Name]; ok {
				n.Heard, n.Reports = h.Heard, h.Reports
				nodes[h.Name] = n
			}
		}
	case blockForgetNode:
		var name string
		if err := json.Unmarshal(text, &name); err != nil {
			return err
		}
		delete(nodes, name)
	default:
		return fmt.Errorf("block has kind %d, which this program does not know", kind)
	}
	return nil
}

// restorePair applies a block with a line and a pair. If the parameter more is true, the trains in
// the block are added to the trains that are known. Otherwise they replace the known trains.
func (c *core) restorePair(text []byte, more bool) error {
	line, data, _ := bytes.Cut(text, []byte("\n"))
	var n notedPair
	if err := json.Unmarshal(line, &n); err != nil {
		return err
	}
	live, err := tscratio.DecodePair(data)
	if err != nil {
		return err
	}
	if live.Declared != c.config.Assumptions {
		return fmt.Errorf("pair %q with %q was gathered under other assumptions: %+v", live.A.Name,
			live.B.Name, live.Declared)
	}
	key := pairKey{live.A.Name, live.B.Name, live.A.Epoch, live.B.Epoch}
	p := &pair{
		key: key, liveTrains: live, readA: n.ReadA, readB: n.ReadB, reportedAt: n.At,
		trains: n.Trains, exchanges: n.Exchanges, lost: n.Lost, kernel: n.Kernel, stamps: n.Stamps,
	}
	if known := c.pairs[key]; more && known != nil {
		if err := known.liveTrains.Join(live); err != nil {
			return err
		}
		p.liveTrains = known.liveTrains
		c.dropOld(p)
	}
	c.pairs[key] = p
	return nil
}

// readFiles reads the state that a server of version 1 wrote.
func (c *core) readFiles() (map[string]notedNode, error) {
	var all []notedNode
	if _, err := c.store.readJSON("nodes.json", &all); err != nil {
		return nil, err
	}
	nodes := map[string]notedNode{}
	for _, n := range all {
		nodes[n.Registered.Name] = n
	}
	paths, err := filepath.Glob(filepath.Join(c.store.dir, pairsDir, "*.pair"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		text, err := readPairFile(path)
		if err == nil {
			err = c.restorePair(text, false)
		}
		if err != nil {
			c.log.Error("skip a pair of the state", "file", path, "error", err)
		}
	}
	return nodes, nil
}

// removeFiles removes the files of version 1. The journal now contains the state that was in these
// files.
func (s *Store) removeFiles() error {
	return errors.Join(s.remove("nodes.json"), os.RemoveAll(filepath.Join(s.dir, pairsDir)))
}
