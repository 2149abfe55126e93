package coordinator

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// RunFiles are the files of a complete run that the server keeps.
type RunFiles struct {
	Run   string         `json:"run"`
	Files []control.File `json:"files"`
	State string         `json:"state"` // differs whenever one of the files differs
}

// maxReading is how many parts of files are read at the same time. Each part stays in memory until
// it is sent.
const maxReading = 16

// listRunFiles lists the files of a run in the background, so that the server need not wait.
func (c *core) listRunFiles(name string, reply func(RunFiles), refuse func(control.Code, error)) {
	list := RunFiles{Run: name, Files: []control.File{}}
	c.background(func() error {
		files, state, err := runs.Files(c.store.runs, name)
		for _, f := range files {
			list.Files = append(list.Files, control.File{Path: f.Path, Bytes: f.Bytes})
		}
		list.State = state
		return err
	}, func(err error) {
		if err != nil {
			code, err := whyNoFile(name, err)
			refuse(code, err)
			return
		}
		reply(list)
	})
}

// readRunFile sends a part of a run's file to whoever asks. Package control lets only admins ask.
func (c *core) readRunFile(in control.Incoming, m *control.ReadFile) {
	if c.reading >= maxReading {
		c.send(in.Peer, in.Request, control.Refuse(control.NotNow,
			fmt.Sprintf("the server reads %d parts of files already: ask again", c.reading)))
		return
	}
	c.reading++
	chunk := &control.Chunk{Path: m.Path, Offset: m.Offset}
	c.background(func() error {
		data := make([]byte, m.Bytes)
		n, size, err := runs.ReadFile(c.store.runs, m.Run, m.Path, m.Offset, data)
		chunk.Size, chunk.Data = size, data[:n]
		return err
	}, func(err error) {
		c.reading--
		if err != nil {
			code, err := whyNoFile(m.Run, err)
			c.send(in.Peer, in.Request, control.Refuse(code, err.Error()))
			return
		}
		c.send(in.Peer, in.Request, chunk)
	})
}

// whyNoFile turns an error into a refusal that tells the asker what to do.
func whyNoFile(name string, err error) (control.Code, error) {
	switch {
	case errors.Is(err, runs.ErrNotComplete):
		return control.NotNow, fmt.Errorf("run %q is not complete: end it with "+
			"\"cprof run stop\", or see \"cprof run status\"", name)
	case errors.Is(err, fs.ErrNotExist):
		return control.NotFound, fmt.Errorf("there is no run %q, or it lacks that file: %q lists "+
			"the runs", name, "cprof run list")
	case errors.Is(err, runs.ErrName):
		return control.Malformed, err
	}
	return control.Failed, err
}
