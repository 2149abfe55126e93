package coordinator

import (
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// A collection is a node's files on their way into the run, one after another. What has come of a file waits beside the server's state
// until it is whole: a node that comes back goes on where it was.
type collection struct {
	node  string
	files []control.File
	at    int // of files
	got   int64
	of    int64
	tries int
}

const collectTries = 5

// collectAll fetches the files of all nodes that have the run, side by side, and then completes the run.
func (c *Core) collectAll() {
	r := c.run
	var nodes []*node
	for _, n := range c.sorted() {
		if !r.opened[n.name()] || !n.can(control.CanFiles) {
			continue
		}
		if !n.alive() {
			r.lacks("node "+n.name(), "its logs were not fetched: it is gone: "+n.left)
			continue
		}
		nodes = append(nodes, n)
	}
	r.waiting = len(nodes) + 1
	over := func() {
		if r.waiting--; r.waiting == 0 && c.run == r {
			c.completeRun()
		}
	}
	for _, n := range nodes {
		k := &collection{node: n.name()}
		r.collect = append(r.collect, k)
		c.list(k, func(err error) {
			if err != nil {
				r.lacks("node "+k.node, "its logs were not fetched: "+err.Error())
			}
			over()
		})
	}
	over()
}

func (c *Core) list(k *collection, done func(error)) {
	c.ask(c.nodes[k.node], &control.ListFiles{Run: c.run.name()}, c.config.AnswerLimit, "a list of its files", func(m control.Message, err error) {
		files, ok := m.(*control.Files)
		if err == nil && !ok {
			err = fmt.Errorf("node %q answers a list of files with %s", k.node, m.Kind())
		}
		if err != nil {
			done(err)
			return
		}
		k.files = files.Files
		for _, f := range k.files {
			k.of += f.Bytes
		}
		if files.More {
			c.run.lacks("node "+k.node, "it was still writing when its files were fetched")
		}
		c.fetch(k, done)
	})
}

// fetch fetches the next part of a file.
func (c *Core) fetch(k *collection, done func(error)) {
	if k.at == len(k.files) {
		done(nil)
		return
	}
	f := k.files[k.at]
	part := c.store.partPath(k.node, f.Path)
	offset := int64(0)
	if info, err := os.Stat(part); err == nil {
		offset = info.Size()
	}
	if offset >= f.Bytes {
		draft := c.run.draft
		c.background(func() error { return keep(draft, k.node, f, part) }, func(err error) {
			if err != nil {
				c.run.lacks("node "+k.node, fmt.Sprintf("file %q: %v", f.Path, err))
			}
			os.Remove(part)
			k.at++
			c.fetch(k, done)
		})
		return
	}
	ask := &control.ReadFile{Run: c.run.name(), Path: f.Path, Offset: offset, Bytes: min(control.MaxChunkBytes, f.Bytes-offset)}
	c.ask(c.nodes[k.node], ask, c.config.AnswerLimit, fmt.Sprintf("a part of %q", f.Path), func(m control.Message, err error) {
		chunk, ok := m.(*control.Chunk)
		switch {
		case err != nil:
		case !ok:
			err = fmt.Errorf("node %q answers a wish for a file with %s", k.node, m.Kind())
		case chunk.Path != f.Path || chunk.Offset != offset || len(chunk.Data) == 0 || int64(len(chunk.Data)) > ask.Bytes:
			err = fmt.Errorf("node %q sends %d bytes of %q at %d, not of %q at %d", k.node, len(chunk.Data), chunk.Path, chunk.Offset, f.Path, offset)
		default:
			err = appendTo(part, chunk.Data)
			k.got += int64(len(chunk.Data))
			k.tries = 0
		}
		if err != nil {
			if k.tries++; k.tries >= collectTries || !c.nodes[k.node].alive() {
				done(err)
				return
			}
		}
		c.fetch(k, done)
	})
}

// keep puts a whole file into the run.
func keep(draft *runs.Draft, node string, f control.File, part string) error {
	if err := appendTo(part, nil); err != nil { // an empty one has not come to be
		return err
	}
	from, err := os.Open(part)
	if err != nil {
		return err
	}
	defer from.Close()
	switch base := path.Base(f.Path); {
	case strings.HasSuffix(base, ".cplog"):
		return draft.AddLog(node, base, from)
	case strings.HasSuffix(base, ".ntp"):
		return draft.AddBaseline(node, from)
	case base == "truth.json":
		text, err := os.ReadFile(part)
		if err != nil {
			return err
		}
		return draft.PutTruth(node, text)
	}
	return fmt.Errorf("is neither a log (.cplog), a baseline (.ntp) nor a truth (truth.json)")
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
