package coordinator

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// A collection fetches a node's files into the run, one after another. The part of a file that has
// arrived is stored in the server's state directory until the file is complete. If the node goes
// away or the server restarts, the server later fetches only the rest of the file.
type collection struct {
	run  *run
	node string
	// the collector that has the node's files; "": they come from the node itself
	from         string
	files        []control.File
	fileIndex    int             // index into files
	wasResumed   bool            // a part of files[at] arrived in an earlier session
	done         map[string]bool // paths of files that are finished or given up
	got          int64
	of           int64
	tries        int
	waited       time.Duration // how long the node took for answers since progress was last checked
	progressThen int64         // the progress at that time
	waitEnd      time.Time     // end of the wait for a node that is gone; zero: no wait
	atEnd        func(error)   // called once, when the collection ends
}

const collectTries = 5

// maxFetching is the largest number of nodes that the server asks for a part of a file at the same
// time. Each answer takes up to control.MaxChunkBytes of memory until it is on disk.
const maxFetching = 32

// errFetchAgain is returned for a damaged file that was fetched in several sessions. The damage may
// have happened on the server's disk, in a part that arrived in an earlier session. Then the node's
// own file may be intact.
var errFetchAgain = errors.New("an earlier part of the file may be damaged")

// collectAll fetches the files of all nodes that opened the run, from several nodes at the same
// time. When all files have arrived, it completes the run.
func (c *core) collectAll() {
	r := c.run
	var nodes []*node
	for _, n := range c.nodesByName() {
		if r.opened[n.name()] && n.can(control.CanFiles) {
			nodes = append(nodes, n)
		}
	}
	r.waiting = len(nodes) + 1
	over := func() {
		if r.waiting--; r.waiting == 0 && c.run == r && !r.isAborted {
			c.completeRun()
		}
	}
	for _, n := range nodes {
		k := &collection{run: r, node: n.name(), from: r.heldLogs[n.name()].holder,
			done: map[string]bool{}}
		k.atEnd = func(err error) {
			if err != nil {
				r.lacks("node "+k.node, notFetched+": "+err.Error())
			}
			over()
		}
		r.collect = append(r.collect, k)
		if r.onlyCollect { // the node may have been away when the run ended
			c.tellOne(n, true, func() { c.list(k) })
			continue
		}
		c.list(k)
	}
	over()
}

// collectFailed handles an error of a collection. If the node is gone, the server waits for its
// return. If the node does not return in time, or if the error has another cause, the run lacks the
// rest of the node's files.
func (c *core) collectFailed(k *collection, why error) {
	if c.isOver(k) || c.withoutCollector(k, why) {
		return
	}
	n := c.nodes[k.node]
	if until := n.lastHeard.Add(c.config.Return); !n.isAlive() && c.now().Before(until) {
		c.log.Warn("wait for a node: some of its logs are missing", "node", k.node, "until", until)
		k.waitEnd = until
		return
	}
	k.atEnd(why)
}

// stepCollect gives up nodes that did not return in time.
func (c *core) stepCollect() {
	if c.run == nil {
		return
	}
	for _, k := range c.run.collect {
		if !k.waitEnd.IsZero() && !c.now().Before(k.waitEnd) {
			k.waitEnd = time.Time{}
			n := c.nodes[k.node]
			k.atEnd(fmt.Errorf("it is gone: %s, and was not back within %v",
				n.goneReason, c.config.Return))
		}
	}
}

// collectOn continues the collection from a node that has returned. It first tells the node to
// close the run, because the node may have missed that order.
func (c *core) collectOn(n *node) {
	for _, k := range c.run.collect {
		if k.node == n.name() && !k.waitEnd.IsZero() {
			k.waitEnd, k.waited = time.Time{}, 0
			c.tellOne(n, true, func() { c.list(k) })
		}
	}
}

func (c *core) list(k *collection) {
	r := k.run
	if c.isOver(k) {
		return
	}
	done := func(m control.Message, err error) {
		if c.isOver(k) {
			return
		}
		files, ok := m.(*control.Files)
		if err == nil && !ok {
			err = fmt.Errorf("node %q answers a list of files with %s", k.node, m.Kind())
		}
		if err != nil {
			c.collectFailed(k, err)
			return
		}
		own := slices.DeleteFunc(files.Files, func(f control.File) bool {
			return strings.HasPrefix(f.Path, collectedPath)
		})
		if collects := slices.Contains(c.collectors(), k.node); files.More && !collects {
			r.lacks("node "+k.node, notFetched+" whole: it was still writing")
		}
		c.fetchAll(k, own)
	}
	if k.from != "" {
		c.fetchAll(k, r.heldLogs[k.node].files)
		return
	}
	c.askInTurn(k, &control.ListFiles{Run: r.name()}, "a list of its files", done)
}

func (c *core) fetchAll(k *collection, files []control.File) {
	k.run.noteSilent(k, files)
	k.files, k.fileIndex, k.of = files, 0, 0
	for _, f := range files {
		k.of += f.Bytes
	}
	c.nextFile(k)
}

// askInTurn asks a node when it is the node's turn. So the server waits for only a few answers at a
// time, however many nodes there are. A node gives one answer a turn, so a slow node delays the
// others little.
func (c *core) askInTurn(k *collection, m control.Message, what string,
	done func(control.Message, error)) {
	if !c.nodes[k.sourceNode()].isAlive() { // it needs no turn to fail
		c.ask(c.nodes[k.sourceNode()], m, 0, what, done)
		return
	}
	k.run.inTurn(func(over func()) {
		if c.isOver(k) {
			over()
			return
		}
		asked := c.now()
		n := c.nodes[k.sourceNode()]
		c.ask(n, m, c.config.AnswerLimit, what, func(m control.Message, err error) {
			k.waited += c.now().Sub(asked)
			done(m, err)
			over()
		})
	})
}

// inTurn calls the function work as soon as fewer than maxFetching other such functions run. The
// argument of work is also a function. When work has finished, it must call this function.
func (r *run) inTurn(work func(over func())) {
	r.waitingTurns = append(r.waitingTurns, work)
	r.nextTurn()
}

func (r *run) nextTurn() {
	for r.fetching < maxFetching && len(r.waitingTurns) > 0 {
		work := r.waitingTurns[0]
		r.waitingTurns = r.waitingTurns[1:]
		r.fetching++
		work(func() {
			r.fetching--
			r.nextTurn()
		})
	}
}

// nextFile finds the next file that the run still lacks and starts to fetch it. If a part of the
// file is already here, fetching continues after that part.
func (c *core) nextFile(k *collection) {
	r := k.run
	for k.fileIndex < len(k.files) && (k.done[k.files[k.fileIndex].Path] ||
		r.hasFile(k.node, k.files[k.fileIndex])) {
		k.fileIndex++
	}
	k.got = 0
	for _, f := range k.files[:k.fileIndex] {
		k.got += f.Bytes
	}
	if k.fileIndex == len(k.files) {
		k.atEnd(nil)
		return
	}
	size, err := partSize(c.store.partPath(r.name(), k.node, k.files[k.fileIndex].Path))
	if err != nil {
		k.atEnd(err)
		return
	}
	k.wasResumed = size > 0
	k.got += size
	c.fetch(k)
}

// fetch fetches the next part of a file.
func (c *core) fetch(k *collection) {
	f := k.files[k.fileIndex]
	part := c.store.partPath(c.run.name(), k.node, f.Path)
	offset, err := partSize(part)
	if err != nil {
		k.atEnd(err)
		return
	}
	if offset >= f.Bytes {
		c.keepFile(k, f, part)
		return
	}
	if why := c.whyStalled(k); why != nil {
		k.atEnd(why)
		return
	}
	ask := &control.ReadFile{
		Run: c.run.name(), Path: k.remotePath(f.Path),
		Offset: offset, Bytes: min(control.MaxChunkBytes, f.Bytes-offset),
	}
	what := fmt.Sprintf("a part of %q", f.Path)
	c.askInTurn(k, ask, what, func(m control.Message, err error) {
		if c.isOver(k) {
			return
		}
		chunk, ok := m.(*control.Chunk)
		switch {
		case err != nil:
		case !ok:
			err = fmt.Errorf("node %q answers a request for a file with %s", k.sourceNode(),
				m.Kind())
		case chunk.Path != ask.Path || chunk.Offset != offset ||
			len(chunk.Data) == 0 || int64(len(chunk.Data)) > ask.Bytes:
			err = fmt.Errorf("node %q sends %d bytes of %q at %d, want %q at %d",
				k.sourceNode(), len(chunk.Data), chunk.Path, chunk.Offset, ask.Path, offset)
		default:
			err = appendTo(part, chunk.Data)
			k.got += int64(len(chunk.Data))
			k.tries = 0
		}
		if err != nil {
			if k.tries++; k.tries >= collectTries || !c.nodes[k.sourceNode()].isAlive() {
				k.tries = 0
				c.collectFailed(k, fmt.Errorf("file %q at byte %d: %w", f.Path, offset, err))
				return
			}
		}
		c.fetch(k)
	})
}

// keepFile moves a fetched file into the run when it is the node's turn.
func (c *core) keepFile(k *collection, f control.File, part string) {
	r := k.run
	draft := r.draft
	r.inTurn(func(over func()) {
		if c.isOver(k) {
			over()
			return
		}
		r.filesMoving++
		c.background(func() error { return moveIntoRun(draft, k.node, f, part, k.wasResumed) },
			func(err error) {
				c.continueAfter(k, f, part, err)
				over()
			})
	})
}

// continueAfter continues a collection after one of its files was moved into the run. If the file
// is damaged and was fetched in several sessions, it is fetched once more.
func (c *core) continueAfter(k *collection, f control.File, part string, err error) {
	r := k.run
	os.Remove(part)
	if r.filesMoving--; c.isOver(k) {
		if c.run == r && r.filesMoving == 0 {
			c.completeRun()
		}
		return
	}
	switch {
	case errors.Is(err, errFetchAgain):
		c.log.Warn("fetch a file once more", "node", k.node, "file", f.Path, "error", err)
	default:
		k.done[f.Path] = true
		c.run.missing = slices.DeleteFunc(c.run.missing,
			func(m runs.Missing) bool { return isOf(m, k.node, f) })
		if err != nil {
			c.run.lacks("node "+k.node, fmt.Sprintf("%s%q: %v", notWhole, f.Path, err))
		}
	}
	c.nextFile(k)
}

// isOver reports whether a collection is over, because its run was aborted or is no longer under
// way.
func (c *core) isOver(k *collection) bool { return c.run != k.run || k.run.isAborted }

// leastRate is the least number of bytes that a node must send in each minute that the server waits
// for it. Without this limit, a node that sends an endless file byte by byte would delay the run
// for ever.
const leastRate = 1 << 20

// whyStalled returns the reason why fetching from a node must stop: the node sends too little, or
// the disk is full. It returns nil if fetching may go on.
func (c *core) whyStalled(k *collection) error {
	if k.waited > time.Minute {
		came := k.got + int64(k.fileIndex)<<16 // a small file is progress, too
		if came-k.progressThen < leastRate {
			return fmt.Errorf("it gave %d bytes of %q in %v, want %d bytes a minute",
				came-k.progressThen, k.files[k.fileIndex].Path, k.waited.Round(time.Second),
				leastRate)
		}
		k.waited, k.progressThen = 0, came
	}
	if room, err := c.store.roomOnDisk(); err == nil && room <= 0 {
		return errors.New("the disk with the server's state is full: make room")
	}
	return nil
}

func partSize(path string) (int64, error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// pathInRun returns the path at which a run keeps a node's file, or "" if runs do not keep such
// files.
func pathInRun(node, file string) string {
	switch base := path.Base(file); {
	case strings.HasSuffix(base, ".cplog"):
		return path.Join(runs.LogsPath(node), base)
	case strings.HasSuffix(base, ".ntp"):
		return runs.BaselinePath(node)
	case base == "truth.json":
		return runs.TruthPath(node)
	}
	return ""
}

// isOf reports whether m says that the run has only a part of this file.
func isOf(m runs.Missing, node string, f control.File) bool {
	return m.Part == "node "+node &&
		strings.HasPrefix(m.Reason, fmt.Sprintf("%s%q: ", notWhole, f.Path))
}

// hasFile reports whether the run already has a file of this name and length, perhaps from before a
// restart of the server. The files of a closed run do not change.
func (r *run) hasFile(node string, f control.File) bool {
	to := pathInRun(node, f.Path)
	if to == "" {
		return false
	}
	if slices.ContainsFunc(r.missing, func(m runs.Missing) bool { return isOf(m, node, f) }) {
		return false
	}
	info, err := os.Stat(filepath.Join(r.draft.Path(), filepath.FromSlash(to)))
	return err == nil && info.Size() == f.Bytes
}

// moveIntoRun moves a fetched file into the run. If the file is a damaged log, moveIntoRun stores
// the intact part and returns an error that says where the damage is.
func moveIntoRun(draft *runs.Draft, node string, f control.File, part string, resumed bool) error {
	if err := appendTo(part, nil); err != nil { // an empty file has no part yet: create it
		return err
	}
	from, err := os.Open(part)
	if err != nil {
		return err
	}
	defer from.Close()
	var damage error
	if base := path.Base(f.Path); base != "truth.json" {
		if damage = runs.CheckLog(from, base); damage != nil && resumed {
			return fmt.Errorf("%w: %w", errFetchAgain, damage)
		}
		if _, err := from.Seek(0, io.SeekStart); err != nil {
			return err
		}
	}
	switch base := path.Base(f.Path); {
	case strings.HasSuffix(base, ".cplog"):
		err = draft.AddLog(node, base, from)
	case strings.HasSuffix(base, ".ntp"):
		err = draft.AddBaseline(node, from)
	case base == "truth.json":
		var text []byte
		if text, err = plainfile.Read(part, maxTruthBytes); err == nil {
			err = draft.PutTruth(node, text)
		}
	default:
		return errors.New("is neither a log (.cplog), a baseline (.ntp) nor a truth (truth.json)")
	}
	return errors.Join(err, damage)
}

func appendTo(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	if _, err := file.Write(data); err != nil {
		file.Close()
		return err
	}
	return file.Close()
}
