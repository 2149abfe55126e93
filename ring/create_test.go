package ring

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
)

func TestCreate(t *testing.T) {
	dir := t.TempDir()
	earliest, low := time.Now(), asm.Counter()
	p := newRingIn(t, dir, 1)
	high, latest := asm.Counter(), time.Now()

	base := filepath.Base(p.Path)
	want := "actor#1~start." + hex.EncodeToString(p.Incarnation[:]) + ".ring"
	if filepath.Dir(p.Path) != dir || base != want || p.Incarnation == [16]byte{} {
		t.Errorf("path %q, want %q in %q", p.Path, want, dir)
	}
	if left := names(t, dir); len(left) != 1 || left[0] != base {
		t.Errorf("the directory has %q", left)
	}
	info, err := os.Stat(p.Path)
	must(t, err)
	st := info.Sys().(*syscall.Stat_t)
	if info.Mode() != 0o600 || st.Nlink != 1 || info.Size() != int64(fileBytes(1, MinRecords)) {
		t.Errorf("mode %v, %d links, %d bytes", info.Mode(), st.Nlink, info.Size())
	}
	h := look(t, p.Path).Header()
	if h.OpenedCounter < low || h.OpenedCounter > high ||
		h.OpenedEarliest.Before(earliest.Add(-1)) || h.OpenedLatest.After(latest.Add(2)) ||
		h.OpenedLatest.Before(h.OpenedEarliest) {
		t.Errorf("opened %+v, want counter in [%d, %d] in [%v, %v]", h, low, high, earliest, latest)
	}
	if h.Boot != Boot() || h.IncarnationText() != hex.EncodeToString(p.Incarnation[:]) {
		t.Errorf("%+v", h)
	}
	if entries, taken, err := look(t, p.Path).Journal(0); err != nil || taken != 0 ||
		len(entries) != 1 || entries[0].Word.Generation() != 1 ||
		entries[0].Settings != testConfig().Settings {
		t.Errorf("it appears with the journal %+v, %d taken, %v", entries, taken, err)
	}
	if s, w := p.Settings(); s != testConfig().Settings || w.Generation() != 1 {
		t.Errorf("%v under %v", s, w)
	}
	if other := newRingIn(t, dir, 1); other.Incarnation == p.Incarnation || other.Path == p.Path {
		t.Error("two rings are one")
	}
	if files, err := Files(dir); err != nil || len(files) != 2 {
		t.Errorf("Files = %q, %v", files, err)
	}
}

// Create allocates all memory of a ring, so no store of a log call finds the file system full.
func TestMemoryIsAllocatedAtTheOpen(t *testing.T) {
	for _, records := range []uint64{MinRecords, 1 << 12, 1 << 16} {
		p := newRing(t, size(records))
		var st unix.Stat_t
		must(t, unix.Stat(p.Path, &st))
		if st.Blocks*512 < st.Size {
			t.Errorf("%d records: %d bytes have %d blocks", records, st.Size, st.Blocks)
		}
	}
}

func TestShardsAndRecords(t *testing.T) {
	rng := seed.Random(t)
	for _, test := range []struct {
		records     uint64
		cores       int
		many        bool
		wantRecords uint64
		wantShards  int
	}{
		{0, 8, false, DefaultRecords, 1},
		{1, 8, false, MinRecords, 1},
		{17, 8, false, 32, 1},
		{MaxRecords, 8, false, MaxRecords, 1},
		{0, 1, true, DefaultRecords, 1},
		{0, 2, true, DefaultRecords / 2, 2},
		{0, 3, true, DefaultRecords / 4, 4},
		{0, 64, true, minShardRecords, 64},
		{0, 65, true, minShardRecords, 64},
		{0, 4096, true, minShardRecords, 64},
		{MaxRecords, 4096, true, MaxRecords / 64, 64},
		{MaxRecords - 1, 4096, true, MaxRecords / 64, 64},
		{16, 64, true, 16, 64},
		{1, 64, true, 16, 64},
		{100, 2, true, 128, 2},
		{2048, 2, true, 1024, 2},
		{2049, 2, true, 2048, 2},
		{1<<18 + 1, 64, true, 8192, 64},
	} {
		c := testConfig(size(test.records))
		c.ManyWriters = test.many
		records, shards, err := c.normalise(test.cores)
		if err != nil || records != test.wantRecords || shards != test.wantShards {
			t.Errorf("%d records on %d cores, many %v: %d shards of %d, %v, want %d of %d",
				test.records, test.cores, test.many, shards, records, err, test.wantShards,
				test.wantRecords)
		}
	}
	for range 10_000 { // every created ring can be opened
		c := testConfig(size(rng.Uint64N(MaxRecords + 1)))
		c.ManyWriters = rng.IntN(2) == 0
		cores := 1 + rng.IntN(1<<rng.IntN(13))
		records, shards, err := c.normalise(cores)
		must(t, err)
		if bits.OnesCount64(records) != 1 || bits.OnesCount(uint(shards)) != 1 ||
			records < MinRecords || uint64(shards)*records > MaxRecords ||
			uint64(shards)*records < c.Records || shards > MaxShards ||
			shards < min(cores, MaxShards) && c.ManyWriters {
			t.Fatalf("%d records on %d cores: %d shards of %d", c.Records, cores, shards, records)
		}
	}
}

func TestCreateRefusesBadConfigurations(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct {
		change func(*Config)
		want   error
		say    string
	}{
		"many overwriting": {func(c *Config) {
			c.ManyWriters, c.Policy = true, channel.Overwrite
		}, ErrConfig, "use block or drop"},
		"many unordered": {func(c *Config) {
			c.ManyWriters, c.Stamp = true, channel.Unordered
		}, ErrConfig, "use rdtscp"},
		"unknown policy":   {func(c *Config) { c.Policy = 3 }, ErrConfig, "policy-3"},
		"unknown stamp":    {func(c *Config) { c.Stamp = 2 }, ErrConfig, "stamp-2"},
		"too many records": {size(MaxRecords + 1), ErrConfig, "268435457 records"},
		"far too many":     {size(1<<64 - 1), ErrConfig, "18446744073709551615 records"},
		"unknown handler":  {func(c *Config) { c.Settings.Kind = 99 }, channel.ErrHandler, "99"},
		"bad parameter": {func(c *Config) {
			c.Settings = channel.Settings{Kind: channel.XoY}
		}, channel.ErrParameter, "y = 0"},
		"no name": {func(c *Config) {
			c.Name = channel.Name{}
		}, channel.ErrName, "empty actor"},
		"name as a path": {func(c *Config) {
			c.Name = channel.Name{Actor: "../../x", Point: "start"}
		}, channel.ErrName, ""},
		"name that is long": {func(c *Config) {
			c.Name = channel.Name{Actor: strings.Repeat("a", 200), Point: "start"}
		}, channel.ErrName, ""},
		"instance too large": {func(c *Config) { c.Name.Instance = 5000 }, channel.ErrName, "5000"},
	} {
		p, err := Create(dir, testConfig(test.change))
		if p != nil || !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.say) {
			t.Errorf("%s: %v, want %q and %v", name, err, test.say, test.want)
		}
	}
	if left := names(t, dir); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}

func TestCreateWhereItCannot(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	writeFile(t, file, nil)
	before := descriptors(t)
	for where, want := range map[string]error{filepath.Join(dir, "none"): fs.ErrNotExist,
		file: unix.ENOTDIR} {
		if p, err := Create(where, testConfig()); p != nil || !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", where, err, want)
		}
	}
	if os.Geteuid() != 0 { // root may write anywhere: TestPrivilegedReadOnly tests root
		must(t, os.Chmod(dir, 0o500))
		if _, err := Create(dir, testConfig()); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("read-only directory: %v", err)
		}
		must(t, os.Chmod(dir, 0o700))
	}
	writeFile(t, filepath.Join(dir, nodeFile), []byte("many\n"))
	if _, err := Create(dir, testConfig()); err == nil ||
		!strings.Contains(err.Error(), "node number") {
		t.Errorf("bad node number: %v", err)
	}
	must(t, os.Remove(filepath.Join(dir, nodeFile)))
	if after := descriptors(t); after > before {
		t.Errorf("%d descriptors became %d", before, after)
	}
	for name, say := range map[string]string{
		"small files":    "allocate 8448 bytes: use a smaller ring or make room: file too large",
		"no descriptors": "too many open files",
	} {
		if c := start(t, name, dir); !strings.Contains(c.readyLine, say) {
			t.Errorf("%s: %q, want %q", name, c.readyLine, say)
		}
	}
	if left := names(t, dir); len(left) != 1 {
		t.Errorf("left behind: %q", left)
	}
}

func TestPrivilegedNoSpace(t *testing.T) {
	privileged.Need(t)
	dir := mount(t, "size=64k", 0)
	for i := range 10 {
		p, err := Create(dir, testConfig())
		if err == nil {
			defer p.Close()
			continue
		}
		if !errors.Is(err, unix.ENOSPC) ||
			!strings.Contains(err.Error(), "use a smaller ring or make room") {
			t.Errorf("ring %d: %v", i, err)
		}
		if left := names(t, dir); len(left) != i {
			t.Errorf("left behind beside %d rings: %q", i, left)
		}
		return
	}
	t.Error("64 KiB hold 10 rings")
}

func TestPrivilegedReadOnly(t *testing.T) {
	privileged.Need(t)
	dir := mount(t, "", unix.MS_RDONLY)
	if _, err := Create(dir, testConfig()); !errors.Is(err, unix.EROFS) {
		t.Errorf("%v", err)
	}
	if err := MakeDirectory(filepath.Join(dir, "x")); !errors.Is(err, unix.EROFS) ||
		!strings.Contains(err.Error(), DirectoryVariable) {
		t.Errorf("%v", err)
	}
}

// mount mounts a memory file system until the test ends.
func mount(t *testing.T, options string, flags uintptr) (dir string) {
	t.Helper()
	dir = t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", flags, options))
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

func TestPrivilegedAnotherUsersFiles(t *testing.T) {
	privileged.Need(t)
	const nobody = 65534
	p := newRing(t)
	must(t, os.Chown(p.Path, nobody, nobody))
	openBoth(t, "another's file", p.Path, ErrUntrusted, "belongs to user nobody")
	dir := t.TempDir()
	must(t, os.Chown(dir, nobody, nobody))
	for what, err := range map[string]error{
		"make": MakeDirectory(dir), "check": CheckDirectory(dir),
	} {
		if !errors.Is(err, ErrDirectory) ||
			!strings.Contains(err.Error(), "belongs to user nobody") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := LockDirectory(dir); !errors.Is(err, ErrDirectory) {
		t.Errorf("lock: %v", err)
	}
}

// The program of another user can neither read a ring nor write to it. It can neither create a ring
// in the directory nor remove one. Even if other users may search the directory, they cannot open
// the file.
func TestPrivilegedAnotherUserStaysOut(t *testing.T) {
	privileged.Need(t)
	above, err := os.MkdirTemp("/tmp", "cloudprofiler-ring") // the other user may enter it
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(above) })
	must(t, os.Chmod(above, 0o755))
	dir := filepath.Join(above, "rings")
	must(t, MakeDirectory(dir))
	p := newRingIn(t, dir, 1)
	try := func(command string) error {
		cmd := exec.Command("/bin/sh", "-c", command, "sh", p.Path, dir)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential: &syscall.Credential{Uid: 12345, Gid: 12345},
		}
		return cmd.Run()
	}
	must(t, try(`test -r /bin/sh && ! test -w /bin/sh && test "$(id -u)" = 12345`))
	for _, mode := range []os.FileMode{0o700, 0o755} {
		if mode != 0o700 {
			must(t, os.Chmod(dir, mode))
			must(t, try(`ls "$2"`))
		}
		for what, command := range map[string]string{
			"read":   `head -c 1 "$1"`,
			"write":  `printf x >>"$1"`,
			"create": `: >"$2/mine.ring"`,
			"remove": `rm -f "$1"`,
			"rename": `mv "$1" "$2/other.ring"`,
			"link":   `ln "$1" "$2/other.ring"`,
		} {
			if try(command) == nil {
				t.Errorf("another user may %s in a directory of mode %o", what, mode)
			}
		}
		if mode == 0o700 && try(`ls "$2"`) == nil {
			t.Error("another user may look into the directory")
		}
	}
	if got := names(t, dir); !slices.Contains(got, filepath.Base(p.Path)) ||
		slices.Contains(got, "mine.ring") || slices.Contains(got, "other.ring") {
		t.Errorf("the directory holds %q", got)
	}
}

func TestCloseLeavesTheRest(t *testing.T) {
	p := newRing(t)
	s, r := &p.Shards[0], look(t, p.Path)
	putRecords(s, 1, 1)
	before := descriptors(t)
	must(t, p.Close())
	if after := descriptors(t); after != before-1 {
		t.Errorf("%d descriptors became %d", before, after)
	}
	putRecords(s, 2, 2) // after Close, this writes into memory that nobody reads
	p.Raise(FlagMisuse)
	if records, _, _ := copyAll(t, r, 0, 0); len(records) != 1 || records[0] != (Record{1, 1}) {
		t.Errorf("%+v", records)
	}
	if state, err := r.State(0); err != nil || state.Flags != FlagClosed {
		t.Errorf("%+v, %v", state, err)
	}
	must(t, p.Close())
	if after := descriptors(t); after != before-1 {
		t.Error("a second Close closed somebody else's file")
	}
}

func TestBootID(t *testing.T) {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Skip("this machine tells no boot id")
	}
	id := Boot()
	got := hex.EncodeToString(id[:])
	if want := regexp.MustCompile("[^0-9a-f]").ReplaceAllString(string(text), ""); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
