package control

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/pebbe/zmq4"

	"github.com/cloudprofiler/cloudprofiler/internal/plainfile"
)

// Role defines what the owner of a key may do.
type Role string

const (
	RoleServer Role = "server" // the server uses the key
	RoleNode   Role = "node"   // a node uses the key to register
	RoleAdmin  Role = "admin"  // as RoleNode; the owner may also ask the server questions
)

// Key is a CURVE key pair, or its public half.
type Key struct {
	Name   string
	Role   Role
	Public string // in Z85, 40 characters
	Secret string // in Z85; "" in the public half
}

var (
	// ErrKeyFile is returned if a file does not contain a key.
	ErrKeyFile = errors.New("not a key file")

	// ErrKeyMode is returned if other users may read the file of a secret key.
	ErrKeyMode = errors.New("secret key is readable by others")

	// ErrKeyRole is returned if a key's role does not fit its use.
	ErrKeyRole = errors.New("key has another role")

	// ErrNeedsKeys is returned if an address lies outside this machine and no keys are given.
	ErrNeedsKeys = errors.New("without keys only addresses of this machine (127.0.0.1, ::1) " +
		"are used: make keys with \"cprof keys\"")
)

const keyBytes = 40 // length of a Z85 key

// NewKey makes a key pair.
func NewKey(name string, role Role) (Key, error) {
	public, secret, err := zmq4.NewCurveKeypair()
	if err != nil {
		return Key{}, fmt.Errorf("make key %q: %w", name, err)
	}
	k := Key{name, role, public, secret}
	return k, k.check()
}

func (k Key) check() error {
	if err := checkName("name", k.Name); err != nil {
		return err
	}
	switch k.Role {
	case RoleServer, RoleNode, RoleAdmin:
	default:
		return fmt.Errorf("role %q, want %q, %q or %q", k.Role, RoleServer, RoleNode, RoleAdmin)
	}
	if !isKey(k.Public) {
		return fmt.Errorf("public key is not %d characters of Z85", keyBytes)
	}
	if k.Secret != "" && !isKey(k.Secret) {
		return fmt.Errorf("secret key is not %d characters of Z85", keyBytes)
	}
	return nil
}

// isKey reports whether a text encodes 32 bytes in Z85 (ZeroMQ's RFC 32). In Z85, five characters
// encode a 32-bit number in base 85.
func isKey(text string) bool {
	const alphabet = "0123456789abcdefghijklmnopqrstuvwxyz" +
		"ABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
	if len(text) != keyBytes {
		return false
	}
	n := uint64(0)
	for i := range len(text) {
		digit := strings.IndexByte(alphabet, text[i])
		if digit < 0 {
			return false
		}
		if n = n*85 + uint64(digit); i%5 == 4 {
			if n > 1<<32-1 {
				return false
			}
			n = 0
		}
	}
	return true
}

// Halved returns the public half of the key, without the secret.
func (k Key) Halved() Key { k.Secret = ""; return k }

// Text returns the content of a file with the key.
func (k Key) Text() []byte {
	var b bytes.Buffer
	switch {
	case k.Secret != "":
		fmt.Fprintf(&b, "# Cloudprofiler: secret key of %s %q. ", k.Role, k.Name)
		b.WriteString("Whoever reads this file can pose as\n" +
			"# its owner. Keep it where it is used, with mode 0600, and copy it nowhere else.\n")
	case k.Role == RoleServer:
		b.WriteString("# Cloudprofiler: public key of the server. It is not a secret. " +
			"Every node and every\n" +
			"# command needs a copy, which tells it that it talks to this server.\n")
	default:
		fmt.Fprintf(&b, "# Cloudprofiler: public key of %s %q. ", k.Role, k.Name)
		b.WriteString("It is not a secret. The server accepts\n" +
			"# its owner as long as this file is in the server's directory of client keys.\n")
	}
	fmt.Fprintf(&b, "name: %s\nrole: %s\npublic: %s\n", k.Name, k.Role, k.Public)
	if k.Secret != "" {
		fmt.Fprintf(&b, "secret: %s\n", k.Secret)
	}
	return b.Bytes()
}

// parseKeys reads one or more keys. Each key begins with its name.
func parseKeys(text []byte) (keys []Key, err error) {
	if len(text) > MaxTextBytes {
		return nil, fmt.Errorf("%w: %d bytes", ErrKeyFile, len(text))
	}
	k := &Key{}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		word, value, _ := strings.Cut(line, ":")
		if word == "name" && k.Name != "" {
			keys = append(keys, *k)
			k = &Key{}
		}
		field := map[string]*string{
			"name": &k.Name, "role": (*string)(&k.Role), "public": &k.Public, "secret": &k.Secret,
		}[word]
		if field == nil || *field != "" {
			return nil, fmt.Errorf("%w: line %d: want name, role, public and secret, once each",
				ErrKeyFile, n)
		}
		*field = strings.TrimSpace(value)
	}
	keys = append(keys, *k)
	for _, k := range keys {
		if err := k.check(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrKeyFile, err)
		}
	}
	return keys, nil
}

// ReadKey reads a key file. If the file contains a secret, and anyone but its owner may read or
// write the file, ReadKey refuses it.
func ReadKey(path string) (Key, error) {
	keys, err := readKeys(path)
	if err != nil {
		return Key{}, err
	}
	if len(keys) > 1 {
		return Key{}, fmt.Errorf("read key %q: %w: it holds %d keys, want one",
			path, ErrKeyFile, len(keys))
	}
	return keys[0], nil
}

func readKeys(path string) ([]Key, error) {
	file, err := plainfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, MaxTextBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read key %q: %w", path, err)
	}
	keys, err := parseKeys(text)
	if err != nil {
		return nil, fmt.Errorf("read key %q: %w", path, err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("read key: %w", err)
	}
	for _, k := range keys {
		if k.Secret != "" && !isPrivate(info.Mode(), ownerOf(info), os.Geteuid()) {
			return nil, fmt.Errorf("read key %q: %w (mode %04o): chmod 600 it",
				path, ErrKeyMode, info.Mode().Perm())
		}
	}
	return keys, nil
}

// isPrivate reports whether nobody but the reader and root may read a file. There is one exception:
// if root owns the file and the reader is not root, the file's group may read it, because otherwise
// the reader could not. Kubernetes mounts secrets as such files.
func isPrivate(mode fs.FileMode, owner, reader int) bool {
	return mode.Perm()&0o077 == 0 || owner == 0 && reader != 0 && mode.Perm()&0o037 == 0
}

// ownerOf returns the user who owns a file, or -1 if that is not known.
func ownerOf(info fs.FileInfo) int {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int(s.Uid)
	}
	return -1
}

// ReadServerKeys reads the public keys that a server may have. While a server's key is being
// replaced, the file contains two keys, one after the other: the present key and the next key.
func ReadServerKeys(path string) (public []string, err error) {
	keys, err := readKeys(path)
	if err != nil {
		return nil, err
	}
	for _, k := range keys {
		if k.Role != RoleServer {
			return nil, fmt.Errorf("read key %q: %w: it is the key of %s %q: use server.public",
				path, ErrKeyRole, k.Role, k.Name)
		}
		public = append(public, k.Public)
	}
	return public, nil
}

// Write writes the key to a new file. If the key includes the secret, the file's mode is 0600,
// otherwise 0644. If the file exists, Write fails.
func (k Key) Write(path string) error {
	mode := fs.FileMode(0o644)
	if k.Secret != "" {
		mode = 0o600
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return fmt.Errorf("write key: %w", err)
	}
	_, err = file.Write(k.Text())
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		os.Remove(path)
		return fmt.Errorf("write key: %w", err)
	}
	return nil
}

// ClientKeys returns a function that lists the public keys in a directory. Only one goroutine may
// call the returned function. Strangers can cause many calls of that function, and there may be
// thousands of files. So a call reads the directory only if a file was added or removed, or if the
// list is ten seconds old. For a moment after files were added or removed, it is read each second.
// As long as the list is the same, the returned slice is the same, too.
func ClientKeys(dir string) func() ([]Key, error) {
	d := &keyDirectory{path: dir, now: time.Now, files: map[string]keyFile{}}
	return d.list
}

type keyDirectory struct {
	path string
	now  func() time.Time

	read    time.Time // when the directory was last read
	changed time.Time // the directory's modification time when it was read
	keys    []Key
	err     error
	files   map[string]keyFile // by path: what was read, so that only changed files are read again
}

// keyFile is what a key's file contained when it was read.
type keyFile struct {
	was stamp
	key Key
	err error
}

// stamp tells whether a file has changed: a write to a file also changes the time in its inode, and
// so the stamp. Only two writes shortly after each other may give the same stamp (see stampOf).
type stamp struct {
	inode   uint64
	bytes   int64
	changed syscall.Timespec
}

// stampOf returns the stamp of a file. It returns false if the file may still change without
// getting another stamp: file times are coarse, so two writes shortly after each other may give the
// same stamp.
func stampOf(info fs.FileInfo, now time.Time) (stamp, bool) {
	s, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return stamp{}, false
	}
	age := now.Sub(time.Unix(s.Ctim.Unix()))
	return stamp{s.Ino, s.Size, s.Ctim}, age > settledFile || age < -settledFile
}

// settledFile is how long ago the last change of a file must be, so that a further change certainly
// gives the file a different time.
const settledFile = 2 * time.Second

// readKey returns the key in a file. It reads the file only if the file may have changed.
func (d *keyDirectory) readKey(path string) (Key, error) {
	info, err := os.Stat(path)
	if err != nil {
		delete(d.files, path)
		return ReadKey(path)
	}
	now, settled := stampOf(info, d.now())
	if known, ok := d.files[path]; ok && settled && known.was == now {
		return known.key, known.err
	}
	key, err := ReadKey(path)
	if settled {
		d.files[path] = keyFile{now, key, err}
	} else {
		delete(d.files, path)
	}
	return key, err
}

// keysAge is how long the list of keys is used before the directory is read again, to see whether
// somebody wrote to a file. If a file was added or removed, the directory is read at once. But the
// directory's modification time does not show a change shortly after another change. So a list that
// was read soon after a change, or with an error, is used for newKeysAge only.
const (
	keysAge    = 10 * time.Second
	newKeysAge = time.Second
)

func (d *keyDirectory) list() ([]Key, error) {
	var changed time.Time // zero: there is no directory
	if info, err := os.Stat(d.path); err == nil {
		changed = info.ModTime()
	}
	most := keysAge
	if d.err != nil || d.read.Sub(d.changed).Abs() < settledFile {
		most = newKeysAge
	}
	if d.read.IsZero() || !changed.Equal(d.changed) || d.now().Sub(d.read) >= most {
		d.read, d.changed = d.now(), changed
		d.keys, d.err = readClientKeys(d.path, d.readKey)
	}
	return d.keys, d.err
}

// ReadClientKeys reads the public keys in a directory, from every file whose name ends in
// ".public". It skips a file that does not contain a client's key, and a file whose key is already
// known under another name. Each skipped file causes an error. The errors are returned together
// with the keys of the other files.
func ReadClientKeys(dir string) ([]Key, error) { return readClientKeys(dir, ReadKey) }

func readClientKeys(dir string, read func(path string) (Key, error)) ([]Key, error) {
	entries, err := os.ReadDir(dir)
	if err != nil { // a part of the list would not say which keys are accepted
		return nil, fmt.Errorf("read client keys: %w", err)
	}
	var paths []string
	for _, e := range entries {
		if name := e.Name(); strings.HasSuffix(name, ".public") {
			paths = append(paths, filepath.Join(dir, name))
		}
	}
	var keys []Key
	var errs []error
	names := map[string]string{} // by public key: the name that came with it
	for _, path := range paths {
		k, err := read(path)
		if err == nil && k.Role == RoleServer {
			err = fmt.Errorf("read key %q: the server's own key lets nobody in", path)
		}
		if name, ok := names[k.Public]; err == nil && ok && name != k.Name {
			err = fmt.Errorf("read key %q: it is the key of %q under another name: "+
				"make %q a key of its own", path, name, k.Name)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		names[k.Public] = k.Name
		keys = append(keys, k.Halved())
	}
	return keys, errors.Join(errs...)
}
