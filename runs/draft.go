package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// ErrExists is returned if a run with this name already exists, complete or not.
var ErrExists = errors.New("run exists")

const (
	directoryMode = 0o700
	fileMode      = 0o600
)

// Draft is a run that is being written. Any number of goroutines of one process may use it. Each
// file gets its final name only when it is complete. There is one exception: callers of
// LogDirectory and BaselinePath write logs under their final names, because readers can read an
// incomplete log.
type Draft struct {
	parent string // the directory of runs
	path   string // this run's directory; until Complete its name ends in ".part"
	root   *os.Root

	mu       sync.Mutex
	run      Run             // protected by mu, like gathered and texts
	gathered *gatheredTrains // nil: AddTrains was never called
	texts    nodeTexts
	places   map[string]int // of nodes in run.Nodes, by name; nil: not known
}

// Create begins a run in a directory of runs. If that directory does not exist, Create creates it.
// The error wraps ErrExists, ErrName or ErrRun.
func Create(parent string, r Run) (*Draft, error) {
	r.Version = Version
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("create run: %w", err)
	}
	fail := func(err error) (*Draft, error) {
		return nil, fmt.Errorf("create run %q: %w", r.Name, err)
	}
	if err := os.MkdirAll(parent, directoryMode); err != nil {
		return fail(err)
	}
	if _, err := os.Lstat(filepath.Join(parent, r.Name)); !errors.Is(err, fs.ErrNotExist) {
		return fail(fmt.Errorf("%q exists already: choose another name or remove it: %w",
			filepath.Join(parent, r.Name), ErrExists))
	}
	d := &Draft{parent: parent, path: filepath.Join(parent, r.Name+incompleteEnd), run: r,
		texts: nodeTexts{}}
	if err := os.Mkdir(d.path, directoryMode); errors.Is(err, fs.ErrExist) {
		return fail(fmt.Errorf("%q exists already and is not complete: resume it, choose "+
			"another name or remove it: %w", d.path, ErrExists))
	} else if err != nil {
		return fail(err)
	}
	var err error
	if d.root, err = os.OpenRoot(d.path); err != nil {
		return fail(err)
	}
	for _, dir := range []string{relationsDir, logsDir, baselinesDir, exportsDir} {
		err = errors.Join(err, d.root.Mkdir(dir, directoryMode))
	}
	if err == nil {
		err = d.save()
	}
	if err != nil {
		d.root.Close()
		return fail(err)
	}
	return d, nil
}

// Resume continues a run that is not complete, for example after a restart.
func Resume(parent, name string) (*Draft, error) {
	fail := func(err error) (*Draft, error) {
		return nil, fmt.Errorf("resume run %q: %w", name, err)
	}
	if err := CheckName(name); err != nil {
		return fail(err)
	}
	d := &Draft{parent: parent, path: filepath.Join(parent, name+incompleteEnd), texts: nodeTexts{}}
	var err error
	if d.root, err = openRoot(d.path); err != nil {
		return fail(err)
	}
	text, err := readFile(d.root, runFile, maxRunBytes)
	if err == nil {
		d.run, err = parseRun(text, path.Join(d.path, runFile))
	}
	if err == nil && d.run.Name != name {
		err = fmt.Errorf("its run.yaml calls it %q: %w", d.run.Name, ErrRun)
	}
	if err == nil {
		d.gathered, err = openGathered(d.root)
	}
	if err != nil {
		d.root.Close()
		return fail(err)
	}
	return d, nil
}

// Reopen continues a complete run, so that missing parts can be added. Until the next Complete, the
// run has the name of an incomplete run again.
func Reopen(parent, name string) (*Draft, error) {
	fail := func(err error) (*Draft, error) {
		return nil, fmt.Errorf("reopen run %q: %w", name, err)
	}
	if err := CheckName(name); err != nil {
		return fail(err)
	}
	whole := filepath.Join(parent, name)
	if err := renameNew(whole, whole+incompleteEnd); err != nil {
		return fail(err)
	}
	d, err := Resume(parent, name)
	if err != nil {
		return fail(errors.Join(err, renameNew(whole+incompleteEnd, whole)))
	}
	return d, nil
}

// Path returns the run's directory. Complete renames this directory.
func (d *Draft) Path() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.path
}

// Run returns a copy of the content of run.yaml.
func (d *Draft) Run() Run {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.run.clone()
}

func (r Run) clone() Run {
	r.Nodes, r.Missing = slices.Clone(r.Nodes), slices.Clone(r.Missing)
	return r
}

// Update changes run.yaml. The function change must not call methods of the draft, and cannot
// change the run's name.
func (d *Draft) Update(change func(*Run)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := d.run
	d.run, d.places = before.clone(), nil
	change(&d.run)
	d.run.Name, d.run.Version = before.Name, Version
	if err := d.save(); err != nil {
		d.run = before
		return fmt.Errorf("update run %q: %w", before.Name, err)
	}
	return nil
}

// save writes run.yaml. The caller has locked d.mu, or no other goroutine knows the draft yet.
func (d *Draft) save() error {
	about := d.run
	about.Missing = shortenMissing(about.Missing)
	text, err := about.encode(d.texts)
	if err != nil {
		return err
	}
	if len(text) > maxRunBytes {
		return fmt.Errorf("%s would have %d bytes, at most %d are read: %w", runFile, len(text),
			maxRunBytes, ErrRun)
	}
	return d.put(runFile, text)
}

// shortenMissing cuts the list of missing parts, so that the list takes at most half of the largest
// length of run.yaml. A last entry says how many parts are left out.
func shortenMissing(missing []Missing) []Missing {
	const perEntry = 64 // largest number of bytes that an entry needs in addition to its texts
	bytes := 0
	for i, m := range missing {
		// One byte of a reason may take four bytes in YAML.
		if bytes += len(m.Part) + 4*len(m.Reason) + perEntry; bytes > maxRunBytes/2 {
			return append(slices.Clone(missing[:i]), Missing{
				runFile, fmt.Sprintf("%d more parts are missing", len(missing)-i),
			})
		}
	}
	return missing
}

func (d *Draft) put(name string, data []byte) error {
	return putFile(d.root, name, bytes.NewReader(data))
}

// PutRelation writes the relation of a pair. It replaces an earlier relation of the same pair.
func (d *Draft) PutRelation(pair *tscratio.Pair) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.putRelation(pair)
}

func (d *Draft) putRelation(pair *tscratio.Pair) error {
	name := d.pairPath(pair.A, pair.B)
	if name == "" {
		return fmt.Errorf("put: %w", notInRun(pair))
	}
	data := pair.Encode()
	if len(data) > maxRelationBytes {
		return fmt.Errorf(
			"put relation of %q and %q: %d bytes, at most %d are read: prune it, or end the run",
			pair.A.Name, pair.B.Name, len(data), maxRelationBytes)
	}
	if err := d.put(name, data); err != nil {
		return fmt.Errorf("put relation: %w", err)
	}
	return nil
}

// AddTable adds a change of the handler table to table.yaml.
func (d *Draft) AddTable(change TableChange) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, err := readFile(d.root, tableFile, maxTableBytes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("note table: %w", err)
	}
	text, err := change.encode()
	if err == nil {
		err = d.put(tableFile, append(before, text...))
	}
	if err != nil {
		return fmt.Errorf("note table: %w", err)
	}
	return nil
}

// LogDirectory creates the directory of a node's logs, to which a drainer on this machine can
// write, and returns its path.
func (d *Draft) LogDirectory(node string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.makeLogs(node); err != nil {
		return "", fmt.Errorf("make directory for logs: %w", err)
	}
	return filepath.Join(d.path, filepath.FromSlash(LogsPath(node))), nil
}

func (d *Draft) makeLogs(node string) error {
	if err := checkNode(&d.run, node); err != nil {
		return err
	}
	if err := d.root.Mkdir(LogsPath(node), directoryMode); err != nil &&
		!errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// AddLog copies a segment of a log into the run. name is the segment's file name. If the run has a
// segment with that name, AddLog replaces it.
func (d *Draft) AddLog(node, name string, from io.Reader) error {
	fail := func(err error) error {
		return fmt.Errorf("add log %q of node %q: %w", name, node, err)
	}
	if _, ok := logstore.ParseSegment(name); !ok || path.Base(name) != name {
		return fail(fmt.Errorf("a segment is called CHANNEL.INCARNATION.NUMBER%s: %w",
			logstore.Suffix, ErrName))
	}
	d.mu.Lock()
	err := d.makeLogs(node)
	d.mu.Unlock()
	if err == nil {
		err = putFile(d.root, path.Join(LogsPath(node), name), from)
	}
	if err == nil {
		err = d.noteAnew(node, name)
	}
	if err != nil {
		return fail(err)
	}
	return nil
}

// noteAnew adds a new or replaced segment to the node's manifest, if the node has a manifest.
func (d *Draft) noteAnew(node, name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	dir := filepath.Join(d.path, filepath.FromSlash(LogsPath(node)))
	_, err := logstore.ReadManifest(dir)
	if err == nil {
		anew := func(s logstore.Segment) bool { return filepath.Base(s.Path) == name }
		err = logstore.ExtendManifest(dir, anew)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, logstore.ErrManifest) {
		// Complete will create a missing manifest. If the manifest is damaged, Complete will report
		// it as missing.
		return nil
	}
	return err
}

// CheckLog checks a segment of a log, or a file of NTP blocks (a baseline), against its checksums.
// The error says where the file is damaged, and wraps an error of package logstore.
func CheckLog(from io.Reader, name string) error {
	report, err := logstore.Check(from, name)
	if err == nil && len(report.Damage) > 0 {
		err = fmt.Errorf("%d places are damaged, the first: %w",
			len(report.Damage)+report.MoreDamage, report.Damage[0])
	}
	return err
}

// BaselinePath returns the path on this machine to which the caller must write the NTP blocks of a
// node.
func (d *Draft) BaselinePath(node string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := checkNode(&d.run, node); err != nil {
		return "", fmt.Errorf("place baseline: %w", err)
	}
	return filepath.Join(d.path, filepath.FromSlash(BaselinePath(node))), nil
}

// AddBaseline copies the NTP blocks of a node into the run.
func (d *Draft) AddBaseline(node string, from io.Reader) error {
	_, err := d.BaselinePath(node)
	if err == nil {
		err = putFile(d.root, BaselinePath(node), from)
	}
	if err != nil {
		return fmt.Errorf("add baseline of node %q: %w", node, err)
	}
	return nil
}

// PutTruth writes the configuration of a virtual node.
func (d *Draft) PutTruth(node string, config []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := checkNode(&d.run, node)
	if err == nil {
		err = d.root.MkdirAll(truthDir, directoryMode)
	}
	if err == nil {
		err = d.put(TruthPath(node), config)
	}
	if err != nil {
		return fmt.Errorf("put truth of node %q: %w", node, err)
	}
	return nil
}

// Complete makes relations of the trains that AddTrains added. It finds the missing parts, adds
// them to those that run.yaml already lists, and gives the run its final name. After Complete, the
// caller must not use the draft, even if Complete returned an error.
func (d *Draft) Complete() ([]Missing, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	defer d.root.Close()
	fail := func(err error) ([]Missing, error) {
		return nil, fmt.Errorf("complete run %q: %w", d.run.Name, err)
	}
	missing, err := d.putGathered()
	if err != nil {
		return fail(err)
	}
	d.run.Missing = append(d.run.Missing, missing...)
	reader := &Directory{Path: d.path, Run: d.run, Complete: true, root: d.root}
	if err := d.noteLogs(reader); err != nil {
		return fail(err)
	}
	for _, m := range reader.Lacks() {
		if !slices.ContainsFunc(d.run.Missing, func(known Missing) bool {
			return known.Part == m.Part
		}) {
			d.run.Missing = append(d.run.Missing, m)
		}
	}
	if err := d.save(); err != nil {
		return fail(err)
	}
	to := filepath.Join(d.parent, d.run.Name)
	if err := renameNew(d.path, to); err != nil {
		return fail(err)
	}
	d.path = to
	return slices.Clone(d.run.Missing), nil
}

// noteLogs adds each node's new segments to the node's manifest. It does not change a damaged
// manifest, which reader.Lacks then returns as missing.
func (d *Draft) noteLogs(reader *Directory) error {
	logs, _ := reader.Logs()
	for _, l := range logs {
		dir := filepath.Join(d.path, filepath.FromSlash(LogsPath(l.Node)))
		err := logstore.ExtendManifest(dir, nil)
		if err != nil && !errors.Is(err, logstore.ErrManifest) {
			return err
		}
	}
	return nil
}

// Close closes the draft and leaves the run incomplete. Resume can continue the run.
func (d *Draft) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.root.Close()
	if d.gathered != nil {
		err = errors.Join(err, d.gathered.journal.Close())
	}
	return err
}

// renameNew renames a directory. If the new name exists, renameNew returns an error.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	switch {
	case errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%q exists already: %w", to, ErrExists)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		// This file system does not support RENAME_NOREPLACE. os.Rename does not replace an
		// existing run either, because the run's directory is not empty.
		err = os.Rename(from, to)
	}
	if err != nil {
		return fmt.Errorf("rename %q to %q: %w", from, to, err)
	}
	return nil
}
