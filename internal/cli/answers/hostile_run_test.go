package answers

import (
	"cmp"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// runFiles are the files of a run, by their paths in the run.
type runFiles map[string][]byte

// hostileEdges declare the graph of the runs that hostileRuns writes.
var hostileEdges = [][2]string{
	{"source/send", "worker/recv"}, {"worker/recv", "worker/send"}, {"worker/send", "sink/recv"},
	{"audit/send", "audit/recv"}, {"window/send", "late/recv"},
}

const (
	hostileTuples = 40
	hostileHop    = simrun.Hz / 10_000
)

// hostileRuns writes whole runs of the nodes A, B and C. Every two nodes have spans that do not
// involve the third. The first run is intact. In the second run, C was interrupted, and A and B
// were not measured with each other.
func hostileRuns(parent string) ([]runFiles, error) {
	var all []runFiles
	for _, broken := range []bool{false, true} {
		name := []string{"whole", "broken"}[len(all)]
		if err := writeHostileRun(rand.New(rand.NewPCG(7, uint64(len(all)))), parent, name,
			broken); err != nil {
			return nil, err
		}
		files, err := readFiles(filepath.Join(parent, name))
		if err != nil {
			return nil, err
		}
		all = append(all, files)
	}
	return all, nil
}

func writeHostileRun(rng *rand.Rand, parent, name string, broken bool) error {
	nodes := simrun.Nodes(rng, 3)
	nodes[1].Quantum = 26
	const begun, ended = 10 * simrun.Hz, 10*simrun.Hz + hostileTuples*20*hostileHop
	d, err := simrun.Begin(rng, parent, name, nodes, begun-simrun.Hz/4, ended+simrun.Hz/4)
	if err != nil {
		return err
	}
	again := simrun.Node{Name: "C", Start: rng.Uint64N(1 << 61), Epoch: "epoch-C-again"}
	if broken {
		now := d.Run().Nodes[2]
		now.Epoch = again.Epoch
		relation := filepath.Join(d.Path(), filepath.FromSlash(runs.RelationPath("A", "B")))
		err = errors.Join(os.Remove(relation), d.Update(func(r *runs.Run) { r.Enter(now) }))
		for i := range 2 {
			pair, related := simrun.Relate(rng, &nodes[i], &again, (begun+ended)/2,
				ended+simrun.Hz/4)
			if err = errors.Join(err, related); err == nil {
				err = d.PutRelation(pair)
			}
		}
		if err != nil {
			return err
		}
	}
	var logs []*simrun.Log
	open := func(node int, channel, handler string) *simrun.Log {
		l, failed := simrun.OpenLog(d, &nodes[node], channel, handler, len(logs))
		err = errors.Join(err, failed)
		logs = append(logs, l)
		return l
	}
	sent, received, handed, sunk := open(0, "source#0/send", ""), open(1, "worker#0/recv", ""),
		open(1, "worker#0/send", "id"), open(2, "sink#0/recv", "")
	audit, audited := open(2, "audit#0/send", ""), open(0, "audit#0/recv", "")
	links, made, late := open(1, "window#0/link", "link"), open(1, "window#0/send", ""),
		open(2, "late#0/recv", "")
	var trips []*simrun.Log
	for i, channel := range returnPoints {
		trips = append(trips, open(i%2, channel, ""))
	}
	counter, bounds := open(0, "source#0/rate", "counter"), open(2, "sink#0/bounds", "first-last")
	if err != nil {
		return err
	}
	add := func(failed error) { err = cmp.Or(err, failed) }
	var samples []logstore.Sample
	for i := range uint64(hostileTuples) {
		id, at := 1<<41|i, begun+i*20*hostileHop
		if i == hostileTuples/2 && broken {
			for _, l := range logs {
				if slices.Contains([]*simrun.Log{sunk, audit, late}, l) {
					add(l.Enter(&again))
				}
			}
		}
		add(sent.Event(at, id))
		add(received.Event(at+hostileHop, id))
		add(handed.Event(at+2*hostileHop, id))
		add(sunk.Event(at+3*hostileHop+rng.Uint64N(hostileHop), id))
		add(audit.Event(at, 1<<42|i))
		add(audited.Event(at+5*hostileHop, 1<<42|i))
		if i%4 == 3 {
			child := 1<<43 | i
			for k := range uint64(4) {
				add(links.Link(id-k, child))
			}
			add(made.Event(at+4*hostileHop, child))
			add(late.Event(at+6*hostileHop, child))
		}
		for k, l := range trips {
			add(l.Event(at+uint64(k)*hostileHop, 1<<44|i))
		}
		samples = append(samples, logstore.Sample{Counter: nodes[0].Reading(at), Count: i * 3})
	}
	add(counter.Append(logstore.Block{Samples: samples}))
	add(bounds.Append(logstore.Block{FirstLasts: []logstore.FirstLast{{
		Count: hostileTuples, FirstCounter: nodes[2].Reading(begun), LastID: 1,
		LastCounter: nodes[2].Reading(ended), Poison: nodes[2].Reading(ended),
	}}}))
	for _, l := range logs {
		add(l.Seal())
	}
	add(putBaseline(d, &nodes[0], begun))
	if err != nil {
		return err
	}
	_, err = d.Complete()
	return err
}

// putBaseline stores what a node's NTP daemon claimed.
func putBaseline(d *runs.Draft, node *simrun.Node, begun uint64) error {
	path, err := d.BaselinePath(node.Name)
	if err != nil {
		return err
	}
	h := logstore.Header{Node: node.Name, Epoch: "epoch-" + node.Name, UTCHi_ns: 1}
	h.Channel.Actor, h.Channel.Point = "ntp", "claims"
	w, err := logstore.Create(nil, path, h)
	if err != nil {
		return err
	}
	b := logstore.Block{}
	for i := range uint64(5) {
		at := node.Reading(begun + i*simrun.Hz/20)
		b.NTPs = append(b.NTPs, logstore.NTP{CounterLo: at, CounterHi: at + 1000,
			Offset_ns: int64(i) * 100, RootDelay_ns: 1000, RootDispersion_ns: 500, Stratum: 2})
	}
	return errors.Join(w.Append(&b), w.Seal())
}

// readFiles reads all files below a directory.
func readFiles(dir string) (runFiles, error) {
	files := runFiles{}
	return files, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err == nil {
			files[filepath.ToSlash(name)], err = os.ReadFile(path)
		}
		return err
	})
}

// write writes the files into a directory that does not exist yet.
func (f runFiles) write(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for name, data := range f {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// names returns the paths that begin with prefix, sorted.
func (f runFiles) names(prefix string) (names []string) {
	for name := range f {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
