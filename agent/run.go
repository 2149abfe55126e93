package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

var (
	// ErrRunOpen is returned if another run is already open on this node.
	ErrRunOpen = errors.New("another run is open")
	// ErrRunClosed is returned if a run with this name was already closed on this node.
	ErrRunClosed = errors.New("a run of this name was closed here")
	// ErrNoRun is returned if a run is not open, or does not exist on this node.
	ErrNoRun = errors.New("no such run")
)

// RunState is the state of a run on this node.
type RunState struct {
	Name     string
	Closed   bool
	Channels int      // number of channels with a log in the run
	Missing  []string // what should be in the run but is missing, and why

	Frequency *control.Frequency // the frequency of the node's counter over the run; nil: unknown
}

func (a *Agent) runPath(name string) string { return filepath.Join(runsFolder, name) }
func (a *Agent) baselinePath(run string) string {
	return filepath.Join(a.c.State, a.runPath(run), runs.BaselinePath(a.c.Node))
}

// OpenRun opens a run. From then on, everything that programs log on this node belongs to the run.
// If this run is already open, OpenRun does nothing.
func (a *Agent) OpenRun(name string) (RunState, error) {
	a.runsMu.Lock()
	defer a.runsMu.Unlock()
	state, err := a.openRun(name)
	if err != nil {
		return RunState{}, fmt.Errorf("open run %q on %s: %w", name, a.c.Node, err)
	}
	return state, nil
}

func (a *Agent) openRun(name string) (RunState, error) {
	if err := runs.CheckName(name); err != nil {
		return RunState{}, err
	}
	open := a.run()
	if open == name {
		return a.runState(name, false), nil
	}
	if open != "" {
		return RunState{}, fmt.Errorf("%q is: close it first: %w", open, ErrRunOpen)
	}
	if _, err := os.Stat(filepath.Join(a.c.State, a.runPath(name))); err == nil {
		return RunState{}, fmt.Errorf("choose another name: %w", ErrRunClosed)
	}
	for _, folder := range []string{runsFolder, logsFolder} {
		if err := a.removeOld(folder); err != nil {
			a.notify(err) // continue, because the run is more important than the disk space
		}
	}
	if err := a.moveLogs(name,
		filepath.Join(a.runPath(name), runs.LogsPath(a.c.Node))); err != nil {
		return RunState{}, err
	}
	a.beginFrequency(name)
	a.chrony.open(a.baselinePath(name))
	return a.runState(name, false), nil
}

// CloseRun seals this node's part of the run. From then on, nothing that programs log belongs to
// the run.
func (a *Agent) CloseRun(name string) (RunState, error) {
	a.runsMu.Lock()
	defer a.runsMu.Unlock()
	if open := a.run(); open != name {
		_, err := os.Stat(filepath.Join(a.c.State, a.runPath(name)))
		if runs.CheckName(name) != nil || err != nil {
			return RunState{}, fmt.Errorf("close run %q on %s: %w", name, a.c.Node, ErrNoRun)
		}
		return a.runState(name, true), nil // the run was closed earlier
	}
	a.endFrequency(name)
	missing := a.missing()
	if err := a.moveLogs("", ""); err != nil {
		return RunState{}, fmt.Errorf("close run %q on %s: %w", name, a.c.Node, err)
	}
	if err := a.chrony.closeBaseline(); err != nil {
		missing = append(missing, err.Error())
	}
	state := a.runState(name, true)
	state.Missing = append(state.Missing, missing...)
	if logged, err := a.logged(name); err == nil {
		state.Missing = append(state.Missing, searchElsewhere(a.c.Rings, logged, ownerOf)...)
	}
	return state, nil
}

// moveLogs makes all rings log to the given directory. If no run is named, they log to a new
// directory for a time without a run. moveLogs writes the state file first, so that the next agent
// continues the move if this agent is killed.
func (a *Agent) moveLogs(run, logs string) error {
	a.flushCapture()
	a.mu.Lock()
	next := a.state
	if run == "" {
		next.Spans++
		logs = spanDirectory(next.Spans)
	}
	next = next.movedTo(logs, func(logs string) bool {
		_, err := os.Lstat(filepath.Join(a.c.State, logs))
		return !errors.Is(err, fs.ErrNotExist)
	})
	next.Run, next.Since = run, time.Now()
	err := next.write(a.c.State)
	if err == nil {
		a.state = next
	}
	a.mu.Unlock()
	if err != nil {
		return err
	}
	if err := a.drainer.SetLogs(filepath.Join(a.c.State, logs)); err != nil {
		return err
	}
	a.mu.Lock()
	a.state = a.state.afterMove() // the next change writes this state to the file
	a.mu.Unlock()
	return nil
}

// now returns the present state.
func (a *Agent) now() agentState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state
}

// run returns the name of the open run, or "".
func (a *Agent) run() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.Run
}

func (a *Agent) runState(name string, closed bool) RunState {
	s := RunState{Name: name, Closed: closed}
	segments, err := a.segments(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.Missing = append(s.Missing, err.Error())
	}
	rings := map[logstore.Incarnation]bool{}
	for _, segment := range segments {
		rings[segment.Incarnation] = true
	}
	s.Channels = len(rings)
	if a.frequency.run == name {
		s.Frequency = a.frequency.is
	}
	return s
}

// segments lists this node's log files of a run.
func (a *Agent) segments(name string) ([]logstore.Segment, error) {
	return logstore.Segments(filepath.Join(a.c.State, a.runPath(name), runs.LogsPath(a.c.Node)))
}

// logged returns the channels that have a row in a log of a run on this node.
func (a *Agent) logged(name string) (map[string]bool, error) {
	segments, err := a.segments(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	all := map[string]bool{}
	for _, segment := range segments {
		if channel := segment.Channel.String(); !all[channel] && hasRow(segment.Path) {
			all[channel] = true
		}
	}
	return all, nil
}

// hasRow reports whether a log file shows that something was logged. If the file cannot be read,
// nobody knows what it contains, and hasRow returns true.
func hasRow(path string) bool {
	file, err := os.Open(path)
	if err != nil {
		return true
	}
	defer file.Close()
	reader, err := logstore.NewReader(file, path)
	for err == nil {
		var block *logstore.Block
		// a channel that was opened, but logged nothing, has only rows about its settings
		if block, err = reader.Next(); err == nil && block.Kind() != logstore.Transitions {
			return true
		}
	}
	return !errors.Is(err, io.EOF)
}

// missing lists the rows that were in rings but are not in any log.
func (a *Agent) missing() (all []string) {
	stats := a.drainer.Stats()
	for _, r := range stats.Rings {
		name := r.Channel.String()
		if r.SetAside != nil {
			all = append(all, r.SetAside.Error())
		}
		if r.Failure != nil {
			all = append(all, fmt.Sprintf("%s: %v", name, r.Failure))
		}
		if n := r.NotStored; n > 0 {
			all = append(all, fmt.Sprintf("%s: %d records were not stored: %v", name, n, r.Limit))
		}
		if r.Removed > 0 {
			all = append(all, fmt.Sprintf("%s: log files that went away while they were written, "+
				"with what was in them: %d", name, r.Removed))
		}
		if r.Missing > 0 {
			all = append(all,
				fmt.Sprintf("%s: %d records were logged and are in no log", name, r.Missing))
		}
	}
	return all
}

// removeOld removes the oldest closed runs, or the oldest directories of times without a run, until
// only the configured number is left. This number includes the run that is being opened, or the
// present directory. The server has already collected the old runs, or will never collect them.
//
// Directories are removed in the order in which they were begun. Earlier versions of the agent did
// not note this order. Directories of such versions are removed first, in the order of the clock.
func (a *Agent) removeOld(folder string) error {
	if a.c.KeepRuns == 0 {
		return nil
	}
	parent := filepath.Join(a.c.State, folder)
	state := a.now()
	entries, err := os.ReadDir(parent)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove old runs: %w", err)
	}
	type old struct {
		path  string
		begun int
		time  time.Time
	}
	var all []old
	for _, e := range entries {
		info, err := e.Info()
		if dir := filepath.Join(folder, e.Name()); err == nil && e.IsDir() && dir != state.Logs {
			all = append(all, old{
				filepath.Join(parent, e.Name()), state.begunIndex(dir), info.ModTime(),
			})
		}
	}
	slices.SortFunc(all, func(x, y old) int {
		return cmp.Or(cmp.Compare(x.begun, y.begun), x.time.Compare(y.time),
			cmp.Compare(x.path, y.path))
	})
	for len(all) >= a.c.KeepRuns {
		if err := os.RemoveAll(all[0].path); err != nil {
			return fmt.Errorf("remove old run: %w", err)
		}
		all = all[1:]
	}
	return nil
}

// File is a file of a run on this node. The path is relative to the run's directory, with slashes.
type File struct {
	Path  string
	Bytes int64
}

// Files lists the files of a run. The result named more says whether files may still grow, and new
// files may appear. This is so while the run is open, and while this node collects logs of other
// nodes. The error wraps ErrNoRun.
func (a *Agent) Files(run string) (files []File, more bool, err error) {
	root, err := a.openRoot(run)
	if err != nil {
		return nil, false, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, e fs.DirEntry, err error) error {
		if path == gatheringFolder {
			return fs.SkipDir
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		files = append(files, File{Path: path, Bytes: info.Size()})
		return nil
	})
	if err != nil {
		return nil, false, fmt.Errorf("list files of run %q: %w", run, err)
	}
	return files, a.run() == run || a.collecting(run), nil
}

// ReadFile reads a part of a run's file, from an offset on, into a buffer. It returns the number of
// bytes that it read, and the present length of the file. At the end of the file, it reads fewer
// bytes than the buffer holds, and returns no error. The error wraps ErrNoRun or fs.ErrNotExist.
func (a *Agent) ReadFile(run, path string, offset int64,
	into []byte) (n int, size int64, err error) {
	root, err := a.openRoot(run)
	if err != nil {
		return 0, 0, err
	}
	defer root.Close()
	// An os.Root opens no path that leads out of the run's directory.
	f, err := root.Open(filepath.FromSlash(path))
	if err != nil {
		return 0, 0, fmt.Errorf("read file of run %q: %w", run, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%q is not a regular file: %w", path, fs.ErrNotExist)
	}
	if err == nil {
		n, err = f.ReadAt(into, offset)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, fmt.Errorf("read file of run %q: %w", run, err)
	}
	return n, info.Size(), nil
}

// openRoot opens the directory of a run.
func (a *Agent) openRoot(run string) (*os.Root, error) {
	if err := runs.CheckName(run); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(filepath.Join(a.c.State, a.runPath(run)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("run %q on %s: %w", run, a.c.Node, ErrNoRun)
	}
	if err != nil {
		return nil, fmt.Errorf("open run %q: %w", run, err)
	}
	return root, nil
}
