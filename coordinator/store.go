package coordinator

import (
	"bytes"
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

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
	"github.com/cloudprofiler/cloudprofiler/runs"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// Store is the directory in which a server keeps its state (FORMAT.md). If the server's process
// dies at any moment, each file is complete, in its old or its new version, or absent. Store does
// not guarantee this if the machine dies. Only one Server at a time may use a directory.
type Store struct {
	dir  string
	runs string
	lock *os.File
}

// OpenStore opens a server's directory and locks out other servers. It creates the directory if it
// does not exist. The argument runs is a separate directory for runs.
func OpenStore(dir, runs string) (*Store, error) {
	for _, d := range []string{filepath.Join(dir, "pairs"), runs} {
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
	return &Store{dir, runs, lock}, nil
}

// Close unlocks the directory, so that another server can use it.
func (s *Store) Close() error { return s.lock.Close() }

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

// These limits apply when the server reads its own files: its state, a pair with its trains, and
// the configuration of a virtual node. The server writes no files that are longer.
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
		Name: r.name(), Phase: r.phase, Begun: r.begun, Missing: r.missing, Again: r.again,
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

// room returns how many more bytes the server may write. It leaves a twentieth of the disk, or 1
// GiB if that is less, for other programs.
func (s *Store) room() (int64, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.dir, &fs); err != nil {
		return 0, fmt.Errorf("find the room in state %q: %w", s.dir, err)
	}
	block := int64(fs.Bsize)
	return int64(fs.Bavail)*block - min(int64(fs.Blocks)*block/20, 1<<30), nil
}

// removeParts removes all partly fetched files. They are of no use once their run is complete.
func (s *Store) removeParts() error { return os.RemoveAll(filepath.Join(s.dir, "parts")) }

// notedNode is the form in which a node is written to disk.
type notedNode struct {
	Registered control.Register `json:"registered"`
	Key        string           `json:"public_key,omitempty"`
	Joined     time.Time        `json:"joined"`
	Heard      time.Time        `json:"heard"`
	Left       string           `json:"left,omitempty"`
	Restarts   int              `json:"restarts"`
	Reports    uint64           `json:"reports,string"`
}

// notedPair is the first line of a pair's file. The encoded pair follows it.
type notedPair struct {
	ReadA     uint64    `json:"read_a_cycles,string"`
	ReadB     uint64    `json:"read_b_cycles,string"`
	At        time.Time `json:"at"`
	Ends      []uint64  `json:"ends_cycles"`
	Trains    uint64    `json:"trains,string"`
	Exchanges uint64    `json:"exchanges,string"`
	Lost      uint64    `json:"lost,string"`
	Kernel    uint64    `json:"kernel_stamps,string"`
	Stamps    uint64    `json:"stamps,string"`
}

func pairFile(k pairKey) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", k.a, k.b, k.epochA, k.epochB))
	return filepath.Join("pairs", hex.EncodeToString(sum[:12])+".pair")
}

// save writes all changes to disk. It writes nodes last, because their file says which reports were
// processed. That file must never name a report whose trains are not on disk.
func (c *core) save() error {
	for _, key := range c.sortedPairs() {
		p := c.pairs[key]
		if !p.dirty {
			continue
		}
		line, err := json.Marshal(notedPair{
			p.readA, p.readB, p.at, p.ends, p.trains, p.exchanges, p.lost, p.kernel, p.stamps,
		})
		if err != nil {
			return err
		}
		text := append(append(line, '\n'), p.live.Encode()...)
		if err := c.store.write(pairFile(key), text); err != nil {
			return err
		}
		if p.run != nil && p.run.Trains() > 0 {
			if err := c.run.draft.PutRelation(p.run); err != nil {
				return err
			}
		}
		p.dirty = false
	}
	if c.nodesDirty || len(c.acks) > 0 {
		var nodes []notedNode
		for _, n := range c.sorted() {
			nodes = append(nodes, notedNode{
				n.registered, n.key, n.joined, n.heard, n.left, n.restarts, n.reports,
			})
		}
		if err := c.store.writeJSON("nodes.json", nodes); err != nil {
			return err
		}
		c.nodesDirty = false
	}
	return nil
}

// restore reads what an earlier core wrote. If a pair cannot be read, restore logs that and renames
// the pair's file.
func (c *core) restore() error {
	if _, err := c.store.readJSON("table.json", &c.table); err != nil {
		return err
	}
	if err := c.restoreIssuer(); err != nil {
		return err
	}
	var nodes []notedNode
	if _, err := c.store.readJSON("nodes.json", &nodes); err != nil {
		return err
	}
	for _, n := range nodes {
		left := n.Left
		if left == "" {
			left = "has not come back since the server was started"
		}
		c.nodes[n.Registered.Name] = &node{
			registered: n.Registered, key: n.Key, joined: n.Joined, heard: n.Heard, left: left,
			restarts: n.Restarts, reports: n.Reports,
		}
	}
	paths, err := filepath.Glob(filepath.Join(c.store.dir, "pairs", "*.pair"))
	if err != nil {
		return err
	}
	for _, path := range paths {
		if err := c.restorePair(path); err != nil {
			c.log.Error("set a pair aside", "file", path, "error", err)
			os.Rename(path, path+".bad")
		}
	}
	for key := range c.pairs {
		c.forget(key)
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
	c.widen(c.sorted()...)
	return nil
}

func (c *core) restorePair(path string) error {
	text, err := plainfile.Read(path, maxPairBytes)
	if err != nil {
		return err
	}
	line, data, _ := bytes.Cut(text, []byte("\n"))
	var n notedPair
	if err := json.Unmarshal(line, &n); err != nil {
		return err
	}
	live, err := tscratio.DecodePair(data)
	if err != nil {
		return err
	}
	if live.Declared != c.config.Assumptions {
		return fmt.Errorf("was gathered under other assumptions: %+v", live.Declared)
	}
	key := pairKey{live.A.Name, live.B.Name, live.A.Epoch, live.B.Epoch}
	c.pairs[key] = &pair{
		key: key, live: live, readA: n.ReadA, readB: n.ReadB, at: n.At, ends: n.Ends,
		trains: n.Trains, exchanges: n.Exchanges, lost: n.Lost, kernel: n.Kernel, stamps: n.Stamps,
	}
	if now, ok := c.current[key.names()]; !ok || c.pairs[now].at.Before(n.At) {
		c.current[key.names()] = key
	}
	return nil
}
