package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// One capture sees all messages of this machine, including those of all virtual nodes, and logs
// them on the first node. A logSplitter gives each node the log of the sockets in the node's
// namespace. This is the log that a capture would have made if the node were a machine.
type logSplitter struct {
	namespaces  []uint32
	nodes       []string
	allMessages []blackbox.Message // all messages, with the machine's readings
	sockets     map[uint32]blackbox.Connection
	lost        map[blackbox.Reason]uint64
	logs        uint32 // number of logs that were read

	// These describe the messages that services wrote down.
	known    map[captureKey]*message
	captured map[*message]blackbox.Message
	sides    map[side][]blackbox.Message // the captured messages of each direction of a socket
	counters map[uint32]*vnode.Counter   // of the nodes, by namespace
}

// splitLog splits the one log, which is in the first directory, and writes the log of each node
// into that node's directory.
func (s *logSplitter) splitLog(dirs []string) error {
	segments, err := logstore.Segments(dirs[0])
	if err != nil {
		return err
	}
	s.sockets, s.lost = map[uint32]blackbox.Connection{}, map[blackbox.Reason]uint64{}
	for _, segment := range segments {
		if segment.Channel.String() != blackbox.Channel {
			continue
		}
		if err := s.segment(segment.Path, dirs); err != nil {
			return fmt.Errorf("split log %q: %w", segment.Path, err)
		}
	}
	for _, dir := range dirs {
		if err := logstore.ExtendManifest(dir, nil); err != nil {
			return err
		}
	}
	return nil
}

// keepLogs takes the place of splitLog if the libraries in the programs made the logs, each on its
// own node. It reads these logs and does not split them.
func (s *logSplitter) keepLogs(dirs []string) error {
	s.sockets, s.lost = map[uint32]blackbox.Connection{}, map[blackbox.Reason]uint64{}
	for _, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil { // a node without a log has no directory
			return err
		}
		segments, err := logstore.Segments(dir)
		if err != nil {
			return err
		}
		for _, segment := range segments {
			if segment.Channel.String() != blackbox.Channel {
				continue
			}
			f, err := os.Open(segment.Path)
			if err != nil {
				return err
			}
			defer f.Close()
			r, err := logstore.NewReader(f, segment.Path)
			if err == nil {
				_, err = s.read(r)
			}
			if err != nil {
				return fmt.Errorf("read log %q: %w", segment.Path, err)
			}
		}
	}
	return nil
}

// read reads a log. Each log numbers its connections from 1, so read renumbers them: afterwards,
// each number stands for one connection in all logs.
func (s *logSplitter) read(r *logstore.Reader) (all []timedRecord, err error) {
	s.logs++
	number := func(n uint32) uint32 { return s.logs<<20 | n }
	var drops []logstore.Drop
	decoders := map[int]*blackbox.Decoder{}
	for {
		b, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		drops = append(drops, b.Drops...)
		if decoders[b.Shard] == nil {
			decoders[b.Shard] = &blackbox.Decoder{}
		}
		for _, e := range b.Events {
			v := decoders[b.Shard].Add(blackbox.Event{Counter_cycles: e.Counter, ID: e.ID})
			switch v := v.(type) {
			case nil:
				continue
			case blackbox.Connection:
				s.sockets[number(v.Number)] = v
			case blackbox.Message:
				v.Connection = number(v.Connection)
				s.allMessages = append(s.allMessages, v)
			case blackbox.Loss:
				s.lost[v.Reason] += v.Messages
			}
			all = append(all, timedRecord{v, e.Counter})
		}
	}
	for _, d := range decoders {
		if len(drops) > 0 || d.Bad > 0 {
			return nil, fmt.Errorf("%d gaps, %d bad events: use fewer requests", len(drops), d.Bad)
		}
	}
	return all, nil
}

func (s *logSplitter) segment(path string, dirs []string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := logstore.NewReader(f, path)
	if err != nil {
		return err
	}
	if h := r.Header(); h.Segment > 0 {
		return errors.New("it has several segments: use fewer requests")
	}
	all, err := s.read(r)
	if err != nil {
		return err
	}
	h := r.Header()
	if err := os.Remove(path); err != nil {
		return err
	}
	for i, dir := range dirs {
		if err := os.MkdirAll(dir, 0o700); err != nil { // the other nodes have no logs yet
			return err
		}
		h.Node, h.Rewritten, h.Continues = s.nodes[i], true, nil
		if err := s.write(filepath.Join(dir, filepath.Base(path)), h, all, i); err != nil {
			return err
		}
	}
	return nil
}

// readCounters reads from the run how the counter of each virtual node follows from the machine's
// counter.
func (s *logSplitter) readCounters(run *runs.Directory) error {
	s.counters = map[uint32]*vnode.Counter{}
	for i, name := range s.nodes {
		text, err := run.Truth(name)
		if err != nil {
			return err
		}
		c, err := vnode.ParseConfig(text)
		if err != nil {
			return err
		}
		if s.counters[s.namespaces[i]], err = vnode.NewCounter(c.Counter); err != nil {
			return err
		}
	}
	return nil
}

// virtualTruth returns a copy of s.known with other keys. The map s.known says for each captured
// message what the truth is. In the copy, the stamps in the keys are converted to the virtual
// counter of the node, as in the run.
func (s *logSplitter) virtualTruth() map[captureKey]*message {
	known := map[captureKey]*message{}
	for k, m := range s.known {
		socket := s.sockets[s.captured[m].Connection]
		counter := s.counters[socket.Namespace]
		if counter == nil {
			continue // nothing describes its socket, so it is in no node's log
		}
		k.began_cycles = counter.Virtual(k.began_cycles)
		known[k] = m
	}
	return known
}

// timedRecord has the content of a record of the log, and the record's stamp. The content describes
// a message, a connection, a thread or a loss.
type timedRecord struct {
	value     any
	at_cycles uint64
}

// write writes the log of one node.
func (s *logSplitter) write(path string, h logstore.Header, all []timedRecord,
	node int) (err error) {
	w, err := logstore.Create(nil, path, h)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close()) }()
	b := &logstore.Block{Incarnation: h.Incarnation}
	flush := func() error {
		if len(b.Events) == 0 {
			return nil
		}
		b.First = w.Next(logstore.Events, 0)
		err := w.Append(b)
		b.Events = b.Events[:0]
		return err
	}
	for _, v := range all {
		events, err := s.events(v, node)
		if err != nil {
			return err
		}
		for _, e := range events {
			b.Events = append(b.Events, logstore.Event{Counter: e.Counter_cycles, ID: e.ID})
		}
		if len(b.Events) > logstore.MaxRows-64 {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return w.Seal()
}

// events encodes v as events of a log, if v belongs in the log of the node. Otherwise it returns
// none.
func (s *logSplitter) events(v timedRecord, node int) ([]blackbox.Event, error) {
	switch of := v.value.(type) {
	case blackbox.Message:
		if s.sockets[s.logs<<20|of.Connection].Namespace == s.namespaces[node] {
			e, err := of.Events()
			return e[:], err
		}
	case blackbox.Connection:
		if of.Namespace == s.namespaces[node] {
			return of.Events(v.at_cycles)
		}
	case blackbox.Thread:
		return of.Events(v.at_cycles)
	case blackbox.Loss:
		e, err := of.Events()
		return e[:], err
	}
	return nil, nil
}
