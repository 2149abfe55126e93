package runs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// ErrNotRun is returned for a directory that is not a run.
var ErrNotRun = errors.New("not a run")

// Directory is a run that is open for reading. Any number of goroutines may use a Directory.
type Directory struct {
	Path string
	Run  Run
	// Complete is true if the run has its final name. If not, somebody is still writing the run, or
	// the writer has died.
	Complete bool

	root *os.Root
}

// Open opens a run directory, which may be incomplete. The error wraps ErrNotRun, ErrRun or an
// error of the system. The caller must close the Directory.
func Open(dir string) (*Directory, error) {
	fail := func(err error) (*Directory, error) {
		return nil, fmt.Errorf("open run %q: %w", dir, err)
	}
	root, err := openRoot(dir)
	if errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(dir, incompleteEnd) {
		if _, arriving := os.Stat(filepath.Join(filepath.Clean(dir)+incompleteEnd,
			stateFile)); arriving ==
			nil {
			return fail(fmt.Errorf("only a part of it was fetched: \"cprof run fetch %s\" "+
				"fetches the rest: %w", filepath.Base(dir), err))
		}
		if _, unfinished := os.Stat(filepath.Clean(dir) + incompleteEnd); unfinished == nil {
			return fail(fmt.Errorf("it is not complete: stop the run, or open %q: %w",
				filepath.Clean(dir)+incompleteEnd, err))
		}
		err = fmt.Errorf("%w: give the directory of one run, as \"cprof run list\" names it", err)
	}
	if err != nil {
		return fail(err)
	}
	d := &Directory{Path: dir, root: root}
	text, err := readFile(root, runFile, maxRunBytes)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("there is no %s in it: give the directory of one run: %w", runFile,
			ErrNotRun)
	}
	if err == nil {
		d.Run, err = parseRun(text, path.Join(dir, runFile))
	}
	if err != nil {
		root.Close()
		return fail(err)
	}
	// Judge by the directory's name alone whether the run is complete. The name in run.yaml may be
	// another one, because somebody may have copied the run.
	name := filepath.Base(filepath.Clean(dir))
	if absolute, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(absolute)
	}
	d.Complete = !strings.HasSuffix(name, incompleteEnd)
	return d, nil
}

// openRoot opens a directory as an os.Root, so that no name leads out of it.
func openRoot(dir string) (*os.Root, error) {
	info, err := os.Stat(dir)
	var named *fs.PathError
	if errors.As(err, &named) {
		return nil, named.Err // without the path, because the caller adds it
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("it is a file: give the directory of one run: %w", ErrNotRun)
	}
	return os.OpenRoot(dir)
}

// readFile reads a regular file. It returns an error if the file is longer than the limit.
func readFile(root *os.Root, name string, most int64) ([]byte, error) {
	f, size, err := openFile(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > most {
		return nil, fmt.Errorf("%q is %d bytes long, at most %d are read", name, size, most)
	}
	return plainfile.ReadAll(f, name, most)
}

// openFile opens a regular file. It refuses all other files, because opening a FIFO waits for a
// writer.
func openFile(root *os.Root, name string) (f *os.File, size int64, err error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%q is not a regular file", name)
	}
	f, err = root.Open(name)
	return f, info.Size(), err
}

// Close closes the directory.
func (d *Directory) Close() error { return d.root.Close() }

// list returns the entries of a directory of the run, or none if the directory does not exist.
func (d *Directory) list(dir string) ([]fs.DirEntry, error) {
	info, err := d.root.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%q is not a directory", dir)
	}
	return fs.ReadDir(d.root.FS(), dir)
}

// Relations reads all stored pairs, in the order of their files' names. If a pair cannot be used,
// Relations returns it as missing, with the reason.
func (d *Directory) Relations() (pairs []*tscratio.Pair, missing []Missing) {
	missing = d.eachRelation(func(p *tscratio.Pair) { pairs = append(pairs, p) })
	return pairs, missing
}

// eachRelation calls the function each with every stored pair that can be used. It returns the
// other pairs as missing.
func (d *Directory) eachRelation(each func(p *tscratio.Pair)) (missing []Missing) {
	open, err := d.readJournal()
	if err != nil {
		missing = append(missing, Missing{journalFile, err.Error()})
	}
	entries, err := d.list(relationsDir)
	if err != nil {
		return append(missing, Missing{relationsDir, err.Error()})
	}
	names := slices.Collect(maps.Keys(open))
	for _, e := range entries {
		name := path.Join(relationsDir, e.Name())
		if _, ok := open[name]; !ok && strings.HasSuffix(name, relationSuffix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	seen := map[[2]tscratio.Node]string{}
	for _, name := range names {
		pair := open[name]
		if pair == nil {
			pair, err = d.readRelation(name)
		}
		if err == nil {
			counter := func(n tscratio.Node) tscratio.Node {
				return tscratio.Node{Name: n.Name, Epoch: n.Epoch}
			}
			nodes := [2]tscratio.Node{counter(pair.A), counter(pair.B)}
			if pair.A.Name > pair.B.Name {
				nodes[0], nodes[1] = nodes[1], nodes[0]
			}
			if other := seen[nodes]; other != "" {
				err = fmt.Errorf("it is of the same nodes as %q", other)
			}
			seen[nodes] = name
		}
		if err != nil {
			missing = append(missing, Missing{name, err.Error()})
			err = nil
			continue
		}
		each(pair)
	}
	return missing
}

func (d *Directory) readRelation(name string) (*tscratio.Pair, error) {
	data, err := readFile(d.root, name, maxRelationBytes)
	if err != nil {
		return nil, err
	}
	pair, err := tscratio.DecodePair(data)
	if err != nil {
		return nil, err
	}
	for _, n := range []tscratio.Node{pair.A, pair.B} {
		node, ok := d.Run.Node(n.Name)
		if !ok {
			return nil, fmt.Errorf("the run has no node %q", n.Name)
		}
		if node.epochNumber(n.Epoch) == 0 {
			return nil, fmt.Errorf("it is of epoch %q of node %q, and the run of %q: "+
				"it belongs to another run", n.Epoch, n.Name, node.Epoch)
		}
	}
	// Earlier versions did not add the length of the first node's name to the file's name. If such
	// a version wrote the file, before is the name that the present version would give to it.
	before := strings.Replace(name, pair.A.Name+"--"+pair.B.Name,
		pairName(pair.A.Name, pair.B.Name), 1)
	if want := d.Run.PairPath(pair.A, pair.B); want != name && want != before {
		return nil, fmt.Errorf("what it holds belongs in %q", want)
	}
	return pair, nil
}

// NodeLogs has the logs of one node.
type NodeLogs struct {
	Node     string
	Segments []logstore.Segment // the segments of one ring are adjacent and in order
}

// Logs lists the logs of all nodes, including nodes that run.yaml does not name. If Logs cannot
// list a node's logs, it returns them as missing, with the reason. If a segment is gone, has
// changed or was added later, Logs returns it as missing, too, under the name of the segment's
// file.
func (d *Directory) Logs() ([]NodeLogs, []Missing) {
	entries, err := d.list(logsDir)
	if err != nil {
		return nil, []Missing{{logsDir, err.Error()}}
	}
	var logs []NodeLogs
	var missing []Missing
	for _, e := range entries {
		name := path.Join(logsDir, e.Name())
		if err := CheckNodeName(e.Name()); err != nil {
			missing = append(missing, Missing{name, err.Error()})
			continue
		}
		if !e.IsDir() {
			missing = append(missing, Missing{name, "it is not a directory"})
			continue
		}
		dir := filepath.Join(d.Path, filepath.FromSlash(name))
		segments, err := logstore.Segments(dir)
		if err != nil {
			missing = append(missing, Missing{name, err.Error()})
			continue
		}
		logs = append(logs, NodeLogs{e.Name(), segments})
		missing = append(missing, departedSegments(name, dir, segments)...)
	}
	return logs, missing
}

// departedSegments returns the segments of a node that are gone, have changed or were added later,
// according to the manifest and to the other segments.
func departedSegments(part, dir string, segments []logstore.Segment) (missing []Missing) {
	lacks := func(name, reason string) {
		name = path.Join(part, name)
		if !slices.ContainsFunc(missing, func(m Missing) bool { return m.Part == name }) {
			missing = append(missing, Missing{name, reason})
		}
	}
	manifest, err := logstore.ReadManifest(dir)
	var departed []logstore.Departure
	if err == nil {
		departed, err = manifest.Check(dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		lacks(logstore.ManifestName, err.Error())
	}
	for _, one := range departed {
		lacks(one.Name, one.Reason)
	}
	for rest := segments; len(rest) > 0; {
		log := logstore.SegmentsOf(rest, rest[0].Channel, rest[0].Incarnation)
		rest = rest[len(log):]
		breaks, err := logstore.CheckChain(log)
		if err != nil {
			lacks(filepath.Base(log[0].Path), err.Error())
		}
		for _, b := range breaks {
			name := b.Changed
			if name == "" {
				name = logstore.SegmentName(log[0].Channel, log[0].Incarnation, b.From)
			}
			lacks(name, b.String())
		}
	}
	return missing
}

// Table reads the changes of the handler table. If the run has no table.yaml, Table returns no
// changes and no error.
func (d *Directory) Table() ([]TableChange, error) {
	text, err := readFile(d.root, tableFile, maxTableBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read changes of the handler table: %w", err)
	}
	return parseTable(text, path.Join(d.Path, tableFile))
}

// Truth reads the configuration of a virtual node. It returns nil if the node has none.
func (d *Directory) Truth(node string) ([]byte, error) {
	if err := checkNode(&d.Run, node); err != nil {
		return nil, fmt.Errorf("read truth: %w", err)
	}
	text, err := readFile(d.root, TruthPath(node), maxTruthBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read truth of node %q: %w", node, err)
	}
	return text, nil
}

// OpenBaseline opens the file with the claims of a node's NTP daemon. If there is no such file, the
// error wraps fs.ErrNotExist. The caller must close the file.
func (d *Directory) OpenBaseline(node string) (*os.File, error) {
	if err := checkNode(&d.Run, node); err != nil {
		return nil, fmt.Errorf("open baseline: %w", err)
	}
	f, _, err := openFile(d.root, BaselinePath(node))
	if err != nil {
		return nil, fmt.Errorf("open baseline of node %q: %w", node, err)
	}
	return f, nil
}

// Export is a file in exports/ that is being written.
type Export struct{ file *begunFile }

// CreateExport begins a file in exports/. A file of the same name stays until Finish replaces it.
// If somebody is writing this file, the error wraps ErrBusy.
func (d *Directory) CreateExport(name string) (*Export, error) {
	if err := checkWord("export", name); err != nil {
		return nil, err
	}
	if err := d.root.MkdirAll(exportsDir, directoryMode); err != nil {
		return nil, fmt.Errorf("create export %q: %w", name, err)
	}
	f, err := begin(d.root, path.Join(exportsDir, name))
	if err != nil {
		return nil, fmt.Errorf("create export %q: %w", name, err)
	}
	return &Export{f}, nil
}

func (e *Export) Write(b []byte) (int, error) { return e.file.Write(b) }

// OpenExport opens a file in exports/. If there is none, the error wraps fs.ErrNotExist. The caller
// must close the file.
func (d *Directory) OpenExport(name string) (f *os.File, size int64, err error) {
	if err := checkWord("export", name); err != nil {
		return nil, 0, err
	}
	if f, size, err = openFile(d.root, path.Join(exportsDir, name)); err != nil {
		return nil, 0, fmt.Errorf("open export %q: %w", name, err)
	}
	return f, size, nil
}

// Finish gives the file its name.
func (e *Export) Finish() error {
	if err := e.file.finish(); err != nil {
		return fmt.Errorf("end export %q: %w", e.file.name, err)
	}
	return nil
}

// Abandon removes the unfinished file.
func (e *Export) Abandon() error { return e.file.abandon() }

// ExportTable is a directory of exports/ that is being written.
type ExportTable struct {
	root       *os.Root
	name, temp string
	lock       *os.File // the directory temp
}

// CreateExportTable begins a directory in exports/. A directory of the same name stays until Finish
// replaces it. If somebody is writing this directory, the error wraps ErrBusy.
func (d *Directory) CreateExportTable(name string) (*ExportTable, error) {
	if err := checkWord("export", name); err != nil {
		return nil, err
	}
	t := &ExportTable{root: d.root, name: path.Join(exportsDir, name)}
	t.temp = t.name + incompleteEnd
	err := d.root.MkdirAll(exportsDir, directoryMode)
	if err == nil {
		t.lock, err = claimPath(d.root, t.temp, func() (*os.File, error) {
			if err := d.root.Mkdir(t.temp, directoryMode); err != nil {
				return nil, err
			}
			return d.root.Open(t.temp)
		}, d.root.RemoveAll)
	}
	if err != nil {
		return nil, fmt.Errorf("create export %q: %w", name, err)
	}
	return t, nil
}

// Create begins a file of the table. The name may be a path with directories, which Create then
// creates. The caller must close the file.
func (t *ExportTable) Create(name string) (*os.File, error) {
	name = path.Join(t.temp, name)
	if err := t.root.MkdirAll(path.Dir(name), directoryMode); err != nil {
		return nil, fmt.Errorf("create export %q: %w", name, err)
	}
	return t.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
}

// Finish gives the directory its name.
func (t *ExportTable) Finish() error {
	err := t.root.RemoveAll(t.name)
	if err == nil {
		err = t.root.Rename(t.temp, t.name)
	}
	err = errors.Join(err, t.lock.Close())
	if err != nil {
		return fmt.Errorf("end export %q: %w", t.name, err)
	}
	return nil
}

// Abandon removes the unfinished directory.
func (t *ExportTable) Abandon() error {
	return errors.Join(t.root.RemoveAll(t.temp), t.lock.Close())
}

// WriteReport replaces report.html. If that fails, the old file stays.
func (d *Directory) WriteReport(page []byte) error {
	if err := putFile(d.root, reportFile, bytes.NewReader(page)); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}

// Lacks returns the missing parts of the run. A run should have an end, relations of its nodes, and
// logs of each node that keeps logs.
func (d *Directory) Lacks() []Missing {
	var related [][2]string
	missing := d.eachRelation(func(p *tscratio.Pair) {
		related = append(related, [2]string{p.A.Name, p.B.Name})
	})
	logs, unlisted := d.Logs()
	missing = append(missing, unlisted...)
	return append(missing, d.absent(related, logs, missing)...)
}

// Absent is for a caller that has already called Relations and Logs. known has the parts that these
// two methods returned as missing. Absent returns the other missing parts of the run.
func (d *Directory) Absent(pairs []*tscratio.Pair, logs []NodeLogs, known []Missing) []Missing {
	var related [][2]string
	for _, p := range pairs {
		related = append(related, [2]string{p.A.Name, p.B.Name})
	}
	return d.absent(related, logs, known)
}
