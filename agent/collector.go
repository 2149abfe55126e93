package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// An agent can be a collector: it fetches the logs of other nodes and keeps them until the server
// fetches them from this agent. The server says which agents are collectors.

const (
	// In a run's directory, the folder collectedFolder has the logs that this node has collected,
	// and gatheringFolder has the logs that this node is still fetching. Both have one folder for
	// each node.
	collectedFolder = "collected"
	gatheringFolder = "gathering"

	// collectWidth is how many nodes' logs an agent fetches at the same time.
	collectWidth = 4

	// The agent stops looking for work when no node has offered logs for the time collectQuiet. If
	// another collector dies, the logs that it was fetching are offered again only after a while.
	// If this agent has stopped by then, the server itself fetches these logs.
	collectQuiet = 2 * time.Second
	collectPause = time.Second // after looking in vain

	maxListBytes = 8 << 20
)

// collector is the agent's state while it collects the logs of other nodes.
type collector struct {
	taking sync.Mutex // locked while the agent looks for work: one search at a time is enough

	mu      sync.Mutex
	run     string    // the run whose logs it collects or collected last
	working int       // goroutines that collect its logs
	last    time.Time // when it began to collect, or last finished the logs of a node
	listed  string    // the run that files is about
	files   []File    // this node's own files of that run
	list    []byte    // the same, as collectors get them
}

// handOver offers this node's logs of a closed run to collectors. If this node is a collector, it
// also begins to collect the logs of other nodes.
func (a *Agent) handOver(run string, names []string) {
	link := a.link.Load()
	if link == nil || len(names) == 0 {
		return
	}
	own := false
	for _, name := range names {
		own = own || name == a.c.Node
	}
	if !own {
		a.running.Go(func() {
			if err := link.Offer(a.ctx, run, names); err != nil && a.ctx.Err() == nil {
				a.notify(err)
			}
		})
		return
	}
	c := &a.collector
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.run == run && c.working > 0 {
		return
	}
	c.run, c.last = run, time.Now()
	for range collectWidth {
		c.working++
		a.running.Go(func() { a.collect(link, run) })
	}
}

// collecting reports whether the agent still looks for logs of a run.
func (a *Agent) collecting(run string) bool {
	c := &a.collector
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.run == run && c.working > 0
}

// collect fetches the logs of one node after the other, until no node offers logs.
func (a *Agent) collect(link *tscclient.Link, run string) {
	c := &a.collector
	defer func() {
		c.mu.Lock()
		c.working--
		c.mu.Unlock()
	}()
	for a.ctx.Err() == nil && a.run() == "" {
		w, ok, err := a.findWork(link, run)
		if err != nil {
			if a.ctx.Err() == nil {
				a.notify(fmt.Errorf("collect run %q: %w", run, err))
			}
			return
		}
		if ok {
			a.collectFrom(link, run, w)
			continue
		}
		if c.isQuiet(run) {
			return
		}
	}
}

// isQuiet reports whether no node has offered logs of a run for some time.
func (c *collector) isQuiet(run string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Since(c.last) > collectQuiet || c.run != run
}

// findWork looks for a node that offers logs. If no node has offered logs for some time, findWork
// does not look. If it looks in vain, it waits a moment.
func (a *Agent) findWork(link *tscclient.Link, run string) (w tscclient.Work, ok bool, err error) {
	a.collector.taking.Lock()
	defer a.collector.taking.Unlock()
	if a.collector.isQuiet(run) {
		return w, false, nil
	}
	if w, ok, err = link.Take(a.ctx); err == nil && !ok {
		select {
		case <-a.ctx.Done():
		case <-time.After(collectPause):
		}
	}
	return w, ok, err
}

// collectFrom fetches the logs of one node. The logs count as collected only if the node confirms
// that this collector finished the work.
func (a *Agent) collectFrom(link *tscclient.Link, run string, w tscclient.Work) {
	of := filepath.Join(a.c.State, a.runPath(run))
	dir := filepath.Join(of, gatheringFolder, w.Node)
	err := errors.Join(runs.CheckNodeName(w.Node), os.RemoveAll(dir))
	if w.Run != run {
		err = errors.Join(err, fmt.Errorf("the logs are of run %q", w.Run))
	}
	if err == nil {
		err = a.gather(link, w, dir)
	}
	finished, finishErr := link.Finish(a.ctx, w, err == nil)
	err = errors.Join(err, finishErr)
	if finished {
		err = errors.Join(err, os.MkdirAll(filepath.Join(of, collectedFolder), 0o700),
			os.Rename(dir, filepath.Join(of, collectedFolder, w.Node)))
		a.collector.mu.Lock()
		a.collector.last = time.Now()
		a.collector.mu.Unlock()
	} else if runs.CheckNodeName(w.Node) == nil {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil && a.ctx.Err() == nil {
		a.notify(fmt.Errorf("collect logs of node %q: %w", w.Node, err))
	}
}

// gather fetches all files of one node into a directory.
func (a *Agent) gather(link *tscclient.Link, w tscclient.Work, dir string) error {
	text, err := fetchList(a, link, w)
	if err != nil {
		return err
	}
	var list control.Files
	if err := json.Unmarshal(text, &list); err != nil {
		return fmt.Errorf("its list of files: %w", err)
	}
	left := a.c.MaxRunBytes
	for i, f := range list.Files {
		if left -= f.Bytes; !filepath.IsLocal(f.Path) || f.Bytes < 0 ||
			left < 0 && a.c.MaxRunBytes > 0 {
			return fmt.Errorf("file %q of %d bytes: its path leads elsewhere, or the files are "+
				"larger than max_run_bytes, %d bytes", f.Path, f.Bytes, a.c.MaxRunBytes)
		}
		to := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := a.gatherFile(link, w, i+1, f.Bytes, to); err != nil {
			return err
		}
	}
	return os.MkdirAll(dir, 0o700) // a node may have no files
}

func (a *Agent) gatherFile(link *tscclient.Link, w tscclient.Work, number int, size int64,
	to string) (err error) {
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := make([]byte, 64<<10)
	for at := int64(0); at < size; {
		n, _, err := link.Fetch(a.ctx, w, number, at, buffer[:min(int64(len(buffer)), size-at)])
		if err == nil && n == 0 {
			err = fmt.Errorf("file %d has %d bytes, not %d", number, at, size)
		}
		if err != nil {
			return err
		}
		if _, err := file.Write(buffer[:n]); err != nil {
			return err
		}
		at += int64(n)
	}
	return nil
}

func fetchList(a *Agent, link *tscclient.Link, w tscclient.Work) (text []byte, err error) {
	buffer := make([]byte, 16<<10)
	for {
		n, size, err := link.Fetch(a.ctx, w, 0, int64(len(text)), buffer)
		if err != nil {
			return nil, err
		}
		if text = append(text, buffer[:n]...); int64(len(text)) >= size {
			return text, nil
		}
		if n == 0 || len(text) > maxListBytes {
			return nil, fmt.Errorf("its list of files has %d bytes, more than %d", size,
				maxListBytes)
		}
	}
}

// isOwn reports whether a file of a run is of this node itself.
func isOwn(path string) bool {
	return !strings.HasPrefix(path, collectedFolder+"/")
}

// readOwn reads a part of a file for a collector. This node's own files of a run are numbered from
// 1, in the order in which Files lists them. File 0 is the list of these files.
func (a *Agent) readOwn(run string, file int, offset int64, into []byte) (int, int64, error) {
	files, list, err := a.own(run)
	switch {
	case err != nil:
		return 0, 0, err
	case file == 0:
		return copy(into, list[min(offset, int64(len(list))):]), int64(len(list)), nil
	case file < 0 || file > len(files):
		return 0, 0, fmt.Errorf("file %d of %d: %w", file, len(files), fs.ErrNotExist)
	}
	return a.ReadFile(run, files[file-1].Path, offset, into)
}

// own lists this node's own files of a closed run. The list does not change any more, so it is made
// once.
func (a *Agent) own(run string) ([]File, []byte, error) {
	c := &a.collector
	c.mu.Lock()
	files, text, known := c.files, c.list, c.listed == run
	c.mu.Unlock()
	if known {
		return files, text, nil
	}
	files = nil
	all, more, err := a.Files(run)
	if err != nil || more {
		return nil, nil, errors.Join(err, errors.New("the run is still open here"))
	}
	list := control.Files{Run: run, Files: []control.File{}}
	for _, f := range all {
		if isOwn(f.Path) {
			files = append(files, f)
			list.Files = append(list.Files, control.File{Path: f.Path, Bytes: f.Bytes})
		}
	}
	if text, err = json.Marshal(list); err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listed, c.files, c.list = run, files, text
	return files, text, nil
}
