package demo

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/vnode"
)

// translateLogs replaces the physical readings in a directory's logs by readings of a virtual
// counter. After that they are like the logs of another machine.
func translateLogs(dir string, counter *vnode.Counter) error {
	translated := dir + ".virtual"
	if err := os.Mkdir(translated, 0o700); err != nil {
		return fmt.Errorf("translate logs: %w", err)
	}
	segments, err := logstore.Segments(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return os.Remove(translated) // no operator ran on this node
	}
	if err != nil {
		return fmt.Errorf("translate logs: %w", err)
	}
	for _, s := range segments {
		to := filepath.Join(translated, filepath.Base(s.Path))
		if err := translateLog(s.Path, to, counter); err != nil {
			return fmt.Errorf("translate log %q: %w", s.Path, err)
		}
	}
	if err := logstore.ExtendManifest(translated, nil); err != nil {
		return fmt.Errorf("translate logs: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("translate logs: %w", err)
	}
	return os.Rename(translated, dir)
}

// translateInPlace does for a single file what translateLogs does for a directory.
func translateInPlace(path string, counter *vnode.Counter) error {
	translated := path + ".virtual"
	if err := translateLog(path, translated, counter); err != nil {
		return fmt.Errorf("translate log %q: %w", path, err)
	}
	return os.Rename(translated, path)
}

func translateLog(from, to string, counter *vnode.Counter) (err error) {
	file, err := os.Open(from)
	if err != nil {
		return err
	}
	defer file.Close()
	reader, err := logstore.NewReader(file, from)
	if err != nil {
		return err
	}
	header := reader.Header()
	header.Counter, header.Rewritten = counter.Virtual(header.Counter), true
	writer, err := logstore.Create(nil, to, header)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writer.Close()) }()
	for {
		block, err := reader.Next()
		if err == io.EOF {
			return writer.SealAs(reader.Report().Then)
		}
		if err != nil {
			return err
		}
		translateBlock(block, counter)
		if err := writer.Append(block); err != nil {
			return err
		}
	}
}

func translateBlock(b *logstore.Block, counter *vnode.Counter) {
	change := func(readings ...*uint64) {
		for _, r := range readings {
			*r = counter.Virtual(*r)
		}
	}
	known := func(readings ...*uint64) { // 0 means no reading
		for _, r := range readings {
			if *r != 0 {
				change(r)
			}
		}
	}
	for i := range b.Events {
		change(&b.Events[i].Counter)
	}
	for i := range b.Samples {
		change(&b.Samples[i].Counter)
	}
	for i := range b.FirstLasts {
		known(&b.FirstLasts[i].FirstCounter, &b.FirstLasts[i].LastCounter, &b.FirstLasts[i].Poison)
	}
	for i := range b.Transitions {
		change(&b.Transitions[i].Counter)
	}
	for i := range b.Drops {
		known(&b.Drops[i].FirstCounter, &b.Drops[i].LastCounter)
	}
	for i := range b.ReturnTrips {
		change(&b.ReturnTrips[i].Sent, &b.ReturnTrips[i].Acknowledged)
	}
	for i := range b.NTPs {
		change(&b.NTPs[i].CounterLo, &b.NTPs[i].CounterHi)
	}
}
