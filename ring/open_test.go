package ring

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// openBoth opens a path with Open and with OpenConsumer. Both functions must return the same error.
func openBoth(t *testing.T, what, path string, want error, say string) {
	t.Helper()
	r, err := Open(path)
	if err == nil {
		r.Close()
	}
	c, errDrain := OpenConsumer(path)
	if errDrain == nil {
		c.Close()
	}
	for _, err := range []error{err, errDrain} {
		if !errors.Is(err, want) || !strings.Contains(err.Error(), say) ||
			!strings.HasPrefix(err.Error(), `open ring "`+path+`": `) {
			t.Errorf("%s: %v, want %q and %v", what, err, say, want)
		}
	}
}

func TestOpenRefusesWhatIsNoPlainFile(t *testing.T) {
	dir := t.TempDir()
	p := newRingIn(t, dir, 1)
	path := func(name string) string { return filepath.Join(dir, name) }

	must(t, os.Symlink(p.Path, path("link")))
	openBoth(t, "symbolic link", path("link"), ErrUntrusted, "symbolic link")
	must(t, unix.Mkfifo(path("fifo"), 0o600))
	// An open that waited for a writer of the FIFO would hang the test.
	openBoth(t, "FIFO", path("fifo"), ErrUntrusted, "not a regular file")
	must(t, os.Mkdir(path("directory"), 0o700))
	openBoth(t, "directory", path("directory"), ErrUntrusted, "not a regular file")
	openBoth(t, "device", "/dev/null", ErrUntrusted, "not a regular file")
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	must(t, err)
	defer unix.Close(fd)
	must(t, unix.Bind(fd, &unix.SockaddrUnix{Name: path("s")}))
	openBoth(t, "socket", path("s"), ErrUntrusted, "not a regular file")
	openBoth(t, "nothing", path("nothing"), os.ErrNotExist, "no such file")

	for _, mode := range []os.FileMode{0o620, 0o602, 0o666} {
		must(t, os.Chmod(p.Path, mode))
		openBoth(t, mode.String(), p.Path, ErrUntrusted, "others may write")
	}
	must(t, os.Chmod(p.Path, 0o644))
	must(t, look(t, p.Path).Close())
	must(t, os.Link(p.Path, path("second")))
	openBoth(t, "second name", p.Path, ErrUntrusted, "2 names")
}

func TestOpenRefusesWhatIsNoRing(t *testing.T) {
	p := newRing(t)
	image, err := os.ReadFile(p.Path)
	must(t, err)
	path := filepath.Join(t.TempDir(), "x.ring")
	for name, b := range map[string][]byte{
		"empty":                {},
		"1 byte":               image[:1],
		"identity less a byte": image[:255],
		"identity alone":       image[:256],
		"header alone":         image[:4096],
		"a byte too short":     image[:len(image)-1],
		"a byte too long":      append(image[:len(image):len(image)], 0),
		"twice as long":        append(image[:len(image):len(image)], image...),
		"zeros":                make([]byte, len(image)),
		"checksum of another ring": append(append([]byte{}, image[:248]...),
			append([]byte{1, 2, 3, 4}, image[252:]...)...),
	} {
		writeFile(t, path, b)
		openBoth(t, name, path, ErrDamaged, "")
	}
	// The file is sparse and has a valid checksum. Open refuses absurd sizes before it maps
	// anything.
	id := p.header.identity
	id.shards, id.records, id.manyWriters = MaxShards, MaxRecords, 1
	id.stamp = uint8(channel.Ordered)
	id.fileBytes = uint64(fileBytes(MaxShards, MaxRecords))
	id.checksum = id.sum()
	writeFile(t, path, unsafe.Slice((*byte)(unsafe.Pointer(&id)), unsafe.Sizeof(id)))
	must(t, os.Truncate(path, int64(id.fileBytes)))
	openBoth(t, "256 GiB", path, ErrDamaged, "64 shards of 268435456 records")
}

// Open refuses an identity in which any field is wrong, even if the checksum matches.
func TestOpenRefusesEachWrongField(t *testing.T) {
	for name, test := range map[string]struct {
		change func(id *identity)
		want   error
		say    string
	}{
		"magic":     {func(id *identity) { id.magic[0] = 'X' }, ErrDamaged, `"XP-RING\n"`},
		"version 0": {func(id *identity) { id.version = 0 }, ErrVersion, "version 0"},
		"next version": {func(id *identity) {
			id.version = version + 1
		}, ErrVersion, "version 4, this program knows 1 to 3"},
		"no shards": {func(id *identity) { id.shards = 0 }, ErrDamaged, "0 shards"},
		"3 shards": {func(id *identity) {
			id.shards, id.manyWriters = 3, 1
		}, ErrDamaged, "3 shards"},
		"too many shards": {func(id *identity) {
			id.shards, id.manyWriters = 128, 1
		}, ErrDamaged, "128 shards"},
		"shards of one": {func(id *identity) {
			id.resize(2, 16)
		}, ErrDamaged, "many-writers mark 0 with 2 shards"},
		"no records": {func(id *identity) { id.resize(1, 0) }, ErrDamaged, "0 records"},
		"8 records":  {func(id *identity) { id.resize(1, 8) }, ErrDamaged, "8 records"},
		"17 records": {func(id *identity) { id.resize(1, 17) }, ErrDamaged, "17 records"},
		"too many records": {func(id *identity) {
			id.resize(1, 2*MaxRecords)
		}, ErrDamaged, "records a shard"},
		"records overflow": {func(id *identity) {
			id.records = 1 << 63
		}, ErrDamaged, "records a shard"},
		"more than file": {func(id *identity) {
			id.resize(1, 32)
		}, ErrDamaged, "the header says 8704"},
		"length": {func(id *identity) {
			id.fileBytes++
		}, ErrDamaged, "the header says 8449"},
		"length overflow": {func(id *identity) {
			id.fileBytes |= 1 << 63
		}, ErrDamaged, "the header says"},
		"many writers 2": {func(id *identity) {
			id.manyWriters = 2
		}, ErrDamaged, "many-writers mark 2"},
		"policy": {func(id *identity) { id.policy = 3 }, ErrDamaged, "policy-3"},
		"stamp":  {func(id *identity) { id.stamp = 2 }, ErrDamaged, "stamp-2"},
		"many overwriting": {func(id *identity) {
			id.manyWriters, id.policy = 1, uint8(channel.Overwrite)
		}, ErrDamaged, "many writers with overwrite"},
		"many unordered": {func(id *identity) {
			id.manyWriters, id.stamp = 1, uint8(channel.Unordered)
		}, ErrDamaged, "many writers with drop and rdtsc"},
		"links": {func(id *identity) { id.links = 2 }, ErrDamaged, "links mark 2"},
		"no name": {func(id *identity) {
			id.nameBytes, id.name = 0, [channel.MaxNameBytes]byte{}
		}, ErrDamaged, "channel name"},
		"long name": {func(id *identity) {
			id.nameBytes = 129
		}, ErrDamaged, "a name of 129 bytes"},
		"name as a path": {func(id *identity) {
			id.nameBytes = uint8(copy(id.name[:], "../passwd\x00\x00\x00\x00"))
		}, ErrDamaged, "channel name"},
		"name shortened": {func(id *identity) {
			id.nameBytes--
		}, ErrDamaged, "bytes after the name"},
		"opened backwards": {func(id *identity) {
			id.openedUTCHi_ns = id.openedUTCLo_ns - 1
		}, ErrDamaged, "opened between"},
		"node": {func(id *identity) {
			id.nodeNumber = channel.MaxNode + 2
		}, ErrDamaged, "node number 16385"},
	} {
		p := newRing(t)
		test.change(&p.header.identity)
		openBoth(t, name+", old checksum", p.Path,
			map[bool]error{true: test.want, false: ErrDamaged}[name == "magic" ||
				test.want == ErrVersion], "")
		p.header.identity.checksum = p.header.identity.sum()
		openBoth(t, name, p.Path, test.want, test.say)
	}
}

func (id *identity) resize(shards uint32, records uint64) {
	id.shards, id.records = shards, records
	id.fileBytes = uint64(fileBytes(int(shards), records))
}

func TestOpenReadsBackEachField(t *testing.T) {
	p := newRing(t)
	id := &p.header.identity
	id.boot = [16]byte{1, 2, 3}
	id.openedCounter, id.openedUTCLo_ns, id.openedUTCHi_ns = 11, 12, 13
	id.pid, id.nodeNumber, id.links = 14, 15, 1
	id.policy, id.stamp = uint8(channel.Overwrite), uint8(channel.Unordered)
	id.checksum = id.sum()
	h := look(t, p.Path).Header()
	if h.Name != testConfig().Name || h.Incarnation != p.Incarnation || h.Boot != id.boot ||
		h.Shards != 1 || h.Records != 16 || h.ManyWriters ||
		!h.Links || h.Policy != channel.Overwrite || h.Stamp != channel.Unordered ||
		h.OpenedCounter != 11 ||
		h.OpenedEarliest.UnixNano() != 12 || h.OpenedLatest.UnixNano() != 13 || h.ProcessID != 14 ||
		h.NodeNumber != 15 {
		t.Errorf("%+v", h)
	}
	many := newShards(t, 4, 32)
	h = look(t, many.Path).Header()
	if h.Shards != 4 || h.Records != 32 || !h.ManyWriters || h.Links ||
		h.NodeNumber != channel.MaxNode+1 || h.ProcessID != os.Getpid() {
		t.Errorf("%+v", h)
	}
}

func TestReadersLeakNothing(t *testing.T) {
	p := newRing(t)
	bad := filepath.Join(t.TempDir(), "bad")
	writeFile(t, bad, []byte("bad"))
	before := descriptors(t)
	for range 10 {
		must(t, look1(p.Path))
		if look1(bad) == nil {
			t.Fatal("a bad ring opens")
		}
	}
	if after := descriptors(t); after != before {
		t.Errorf("%d descriptors became %d", before, after)
	}
}

func look1(path string) error {
	r, err := OpenConsumer(path)
	if err != nil {
		return err
	}
	return r.Close()
}

func descriptors(t *testing.T) int {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(fds)
}
