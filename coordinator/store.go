package coordinator

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/journal"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// Store is the directory in which a server keeps its state (FORMAT.md). If the server's process
// dies at any moment, the journal may end in a torn block, which the next server cuts off. Each
// other file is complete, in its old or its new version, or absent. Store does not guarantee this
// if the machine dies. Only one Server at a time may use a directory.
type Store struct {
	dir  string
	runs string
	lock *os.File
	root *os.Root

	journal *journal.Journal // nil until a core has restored it
	whole   int64            // length of the journal when it was last read or rewritten
}

// OpenStore opens a server's directory and locks out other servers. It creates the directory if it
// does not exist. The parameter runs is a separate directory for runs.
func OpenStore(dir, runs string) (*Store, error) {
	runs, err := filepath.Abs(runs) // users see the paths of runs, and work in other directories
	if err != nil {
		return nil, fmt.Errorf("open state %q: %w", dir, err)
	}
	for _, d := range []string{dir, runs} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("open state %q: %w", dir, err)
		}
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open state %q: %w", dir, err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		return nil, fmt.Errorf("open state %q: another server uses it (%w): "+
			"stop that one, or give this one a directory of its own", dir, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("open state %q: %w", dir, err)
	}
	return &Store{dir: dir, runs: runs, lock: lock, root: root}, nil
}

// Close unlocks the directory, so that another server can use it.
func (s *Store) Close() error {
	var err error
	if s.journal != nil {
		err = s.journal.Close()
	}
	return errors.Join(err, s.root.Close(), s.lock.Close())
}

func (s *Store) write(name string, text []byte) error {
	path := filepath.Join(s.dir, name)
	temporary := path + ".new"
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write state: %w", err)
	}
	return nil
}

func (s *Store) writeJSON(name string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write state %q: %w", name, err)
	}
	return s.write(name, append(text, '\n'))
}

// These limits apply when the server reads its own files: its state, a pair of version 1, and the
// configuration of a virtual node. The server writes no files that are longer.
const (
	maxStateBytes = 64 << 20
	maxPairBytes  = 1 << 30
	maxTruthBytes = 64 << 20
)

// readJSON reads a file that writeJSON wrote. If the file does not exist, readJSON returns false.
func (s *Store) readJSON(name string, v any) (bool, error) {
	path := filepath.Join(s.dir, name)
	text, err := plainfile.Read(path, maxStateBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, fmt.Errorf("read state: %w", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		return false, fmt.Errorf("read state %q: %w: mend it, or remove it", path, err)
	}
	return true, nil
}

// remove removes a file. It is no error if the file does not exist.
func (s *Store) remove(name string) error {
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove state: %w", err)
	}
	return nil
}

func (s *Store) putTable(t tableState) error { return s.writeJSON("table.json", t) }

// notedRun is the form in which the run under way is written to disk.
type notedRun struct {
	Name    string         `json:"name"`
	Phase   Phase          `json:"phase"`
	Begun   time.Time      `json:"begun"`
	Opened  []string       `json:"opened"`
	Missing []runs.Missing `json:"missing,omitempty"`
	Again   bool           `json:"again,omitempty"`
}

func (s *Store) putRun(r *run) error {
	if r == nil {
		return s.remove("run.json")
	}
	n := notedRun{
		Name: r.name(), Phase: r.phase, Begun: r.begun, Missing: r.missing, Again: r.onlyCollect,
	}
	for name := range r.opened {
		n.Opened = append(n.Opened, name)
	}
	return s.writeJSON("run.json", n)
}

// partPath returns the path of a file that is being fetched. It is a hash, so that a node cannot
// choose a path on the server.
func (s *Store) partPath(run, node, path string) string {
	sum := sha256.Sum256([]byte(run + "\x00" + node + "\x00" + path))
	return filepath.Join(s.dir, "parts", hex.EncodeToString(sum[:12]))
}

// roomOnDisk returns how many more bytes the server may write. It leaves a twentieth of the disk,
// or 1 GiB if that is less, for other programs.
func (s *Store) roomOnDisk() (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.dir, &fs); err != nil {
		return 0, fmt.Errorf("find the room in state %q: %w", s.dir, err)
	}
	block := int64(fs.Bsize)
	return int64(fs.Bavail)*block - min(int64(fs.Blocks)*block/20, 1<<30), nil
}

// removeParts removes all partly fetched files. They are of no use once their run is complete.
func (s *Store) removeParts() error { return os.RemoveAll(filepath.Join(s.dir, "parts")) }

// pairsDir is the directory of pairs in a state of version 1.
const pairsDir = "pairs"

func readPairFile(path string) ([]byte, error) { return plainfile.Read(path, maxPairBytes) }

// restore reads what an earlier core wrote.
func (c *core) restore() error {
	if _, err := c.store.readJSON("table.json", &c.table); err != nil {
		return err
	}
	if err := c.restoreIssuer(); err != nil {
		return err
	}
	if _, err := c.store.readJSON("traffic.json", &c.learnt); err != nil {
		return err
	}
	c.learnt.keep(c.learnt.Pairs)
	nodes, there, err := c.readJournal()
	if err != nil {
		return err
	}
	if !there {
		if nodes, err = c.readFiles(); err != nil {
			return err
		}
	}
	for name, n := range nodes {
		left := n.Left
		if left == "" {
			left = "has not come back since the server was started"
		}
		c.nodes[name] = &node{
			registered: n.Registered, key: n.Key, joined: n.Joined, lastHeard: n.Heard,
			goneReason: left,
			restarts:   n.Restarts, reports: n.Reports,
		}
	}
	for key, p := range c.pairs {
		if p.liveTrains.Trains() == 0 { // only a run needed it
			continue
		}
		if now, ok := c.current[key.names()]; !ok || c.pairs[now].reportedAt.Before(p.reportedAt) {
			c.current[key.names()] = key
		}
	}
	if !there {
		if err := errors.Join(c.rewrite(), c.store.removeFiles()); err != nil {
			return err
		}
	}
	for key := range c.pairs {
		c.forgetPair(key)
	}
	var noted notedRun
	if there, err := c.store.readJSON("run.json", &noted); err != nil {
		return err
	} else if there {
		if err := c.resumeRun(&noted); err != nil {
			c.log.Error("resume a run", "run", noted.Name, "error", err)
			return c.store.putRun(nil)
		}
	}
	if err := c.forgetStrangers(); err != nil {
		return err
	}
	// A server that died while writing may have written a counter's new description to only some of
	// the pairs.
	c.widenCounters(c.nodesByName()...)
	return nil
}
