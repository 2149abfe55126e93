package drain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// Logs returns the directory to which the drainer writes logs.
func (d *Drainer) Logs() string { return *d.logs.Load() }

// SetLogs makes all rings log to another directory. If the directory does not exist, SetLogs
// creates it. First the present content of the rings goes to the old directory, and SetLogs seals
// the logs there. When SetLogs has returned nil, each ring has a segment in the new directory.
// After an error, the drainer tries again to move the logs that it could not move.
//
// A drainer that starts later needs the new directory as Options.Logs and the old directory in
// Options.Before. So the caller must note both before the call.
func (d *Drainer) SetLogs(dir string) error {
	if err := makeLogs(dir); err != nil {
		return fmt.Errorf("change log directory: %w", err)
	}
	d.rescan() // the present content of new rings goes to the old directory
	d.limits.useDirectory(dir)
	d.logs.Store(&dir)
	return d.Flush()
}

func makeLogs(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make log directory %q: %w", dir, err)
	}
	return nil
}

// segmentLists lists the segments that are in the log directories when a scan finds a new ring.
type segmentLists struct {
	dirs     []string // the current one first
	segments [][]logstore.Segment
}

// listLogs lists the segments in all log directories.
func (d *Drainer) listLogs() (segmentLists, error) {
	if err := makeLogs(d.Logs()); err != nil {
		return segmentLists{}, err
	}
	b := segmentLists{dirs: append([]string{d.Logs()}, d.o.Before...)}
	for i, dir := range b.dirs {
		segments, err := logstore.Segments(dir)
		if err != nil && i == 0 {
			return segmentLists{}, err
		}
		// Ignore the error, because an earlier directory may be gone.
		b.segments = append(b.segments, segments)
	}
	return b, nil
}

// withDirectory returns the lists with a directory added, unless they have it already.
func (b segmentLists) withDirectory(dir string) (segmentLists, error) {
	if slices.Contains(b.dirs, dir) {
		return b, nil
	}
	segments, err := logstore.Segments(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return segmentLists{}, err
	}
	return segmentLists{append(slices.Clone(b.dirs), dir), append(slices.Clone(b.segments),
		segments)}, nil
}

// logOf returns the directory in which a ring's log continues, and the log's segments there. This
// is the directory with the log's latest segment, because logs may leave a directory and return to
// it.
func (b segmentLists) logOf(name channel.Name,
	incarnation logstore.Incarnation) (dir string, segments []logstore.Segment) {
	dir = b.dirs[0]
	for i := range b.dirs {
		one := logstore.SegmentsOf(b.segments[i], name, incarnation)
		if len(one) > 0 &&
			(len(segments) == 0 || one[len(one)-1].Number > segments[len(segments)-1].Number) {
			dir, segments = b.dirs[i], one
		}
	}
	return dir, segments
}

// hasLog reports whether any of the directories has a log of a ring.
func (b segmentLists) hasLog(name channel.Name, incarnation logstore.Incarnation) bool {
	_, segments := b.logOf(name, incarnation)
	return len(segments) > 0
}
