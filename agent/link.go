package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// LinkStatus describes the link to the server.
type LinkStatus struct {
	// Server is the address of the server; "" means that the agent has none.
	Server    string    `json:"server,omitempty"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Error     string    `json:"error,omitempty"` // why the agent has no connection
}

// capabilities lists the kinds of orders that this agent accepts from a server. Orders to probe are
// not listed: tscclient.Link carries them out.
var capabilities = []string{
	control.CanRun, control.CanTable, control.CanFiles, control.CanSnapshot, control.CanWatch,
}

// connect begins to connect to the server, if one is configured.
func (a *Agent) connect() error {
	if a.c.Server == nil {
		return nil
	}
	config := *a.c.Server
	config.Handle, config.OpenRun = a.Handle, a.run
	config.Facts, config.Heats = a.nodeFacts, a.hotness
	config.ReadFile = a.readOwn
	config.Register.Capabilities = slices.Clone(capabilities)
	link, err := tscclient.Connect(a.c.Client, config)
	if err != nil {
		return err
	}
	a.link.Store(link)
	return nil
}

// tellLimit is the time after which the agent gives up sending a message to the server.
const tellLimit = time.Second

// asked asks the server to make the other nodes take a snapshot, because a program on this node
// asked for one. This node's own snapshot does not wait for the other nodes.
func (a *Agent) asked() {
	link := a.link.Load()
	if link == nil {
		return
	}
	a.running.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), tellLimit)
		defer cancel()
		if err := link.Tell(ctx,
			&control.Snapshot{Reason: "a program on " + a.c.Node + " asked"}); err != nil {
			a.notify(fmt.Errorf("have other nodes take a snapshot: %w", err))
		}
	})
}

func (a *Agent) linkStatus() LinkStatus {
	link := a.link.Load()
	if link == nil {
		return LinkStatus{}
	}
	s := link.State()
	return LinkStatus{
		Server: a.c.Server.Server.Server, Connected: s.Registered, Since: s.Since, Error: s.Problem,
	}
}

// Handle carries out an order of the server, and returns the answer. If the order is not for
// agents, Handle returns nil.
func (a *Agent) Handle(_ context.Context, m control.Message) (control.Message, error) {
	switch m := m.(type) {
	case *control.Table:
		matched, err := a.SetTable(m.Text, m.Generation)
		if err != nil {
			return &control.TableState{Generation: a.generation(), Error: shortenError(err)}, nil
		}
		state := &control.TableState{Generation: m.Generation, Matched: matched}
		for _, n := range matched {
			state.Channels += n
		}
		return state, nil
	case *control.Run:
		do := a.OpenRun
		if m.Close {
			do = a.CloseRun
		}
		s, err := do(m.Name)
		if err != nil {
			return refusal(err), nil
		}
		if m.Close {
			a.handOver(m.Name, m.Collectors)
		}
		return &control.RunState{
			Name: s.Name, Closed: s.Closed, Channels: s.Channels, Missing: s.Missing,
			Frequency: s.Frequency,
		}, nil
	case *control.ListFiles:
		files, more, err := a.Files(m.Run)
		if err != nil {
			return refusal(err), nil
		}
		answer := &control.Files{Run: m.Run, More: more, Files: []control.File{}}
		for _, f := range files {
			answer.Files = append(answer.Files, control.File{Path: f.Path, Bytes: f.Bytes})
		}
		return answer, nil
	case *control.ReadFile:
		if m.Bytes < 0 || m.Bytes > control.MaxChunkBytes || m.Offset < 0 {
			return &control.Refusal{Code: control.Malformed,
				Text: fmt.Sprintf("%d bytes at %d", m.Bytes, m.Offset)}, nil
		}
		b := make([]byte, m.Bytes)
		n, size, err := a.ReadFile(m.Run, m.Path, m.Offset, b)
		if err != nil {
			return refusal(err), nil
		}
		return &control.Chunk{Path: m.Path, Offset: m.Offset, Size: size, Data: b[:n]}, nil
	case *control.Watch:
		a.Watch(m)
		return &control.Done{}, nil
	case *control.Snapshot:
		channels, records, err := a.Snapshot(m.Channels)
		s := &control.SnapshotState{Channels: channels, Records: records}
		if err != nil {
			s.Error = shortenError(err)
		}
		return s, nil
	}
	return nil, nil
}

func (a *Agent) generation() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.table.Generation
}

// shortenError returns the text of an error, shortened so that it fits into a message.
func shortenError(err error) string {
	return control.Cut(err.Error())
}

// refusal returns the answer to an order that failed.
func refusal(err error) *control.Refusal {
	r := &control.Refusal{Code: control.Failed, Text: shortenError(err)}
	switch {
	case errors.Is(err, ErrNoRun), errors.Is(err, fs.ErrNotExist):
		r.Code = control.NotFound
	case errors.Is(err, ErrRunOpen), errors.Is(err, ErrRunClosed):
		r.Code = control.NotNow
	}
	return r
}
