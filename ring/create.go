package ring

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math/bits"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
)

// ErrConfig is returned for a configuration that cannot describe a ring.
var ErrConfig = errors.New("bad ring configuration")

// DefaultRecords is the number of records in a ring by default. These records take 1 MiB. If a
// drainer reads the ring every millisecond, the ring does not fill even at the highest possible
// rate.
const DefaultRecords = 1 << 16

// minShardRecords is the least number of records in each shard of a ring with many writers, unless
// the program asked for a smaller ring.
const minShardRecords = 1 << 10

// Config says what ring to create.
type Config struct {
	Name        channel.Name
	Settings    channel.Settings
	Policy      channel.Policy
	Stamp       channel.Stamp
	ManyWriters bool
	// Records is the number of records in all shards together; 0 means DefaultRecords. Each shard's
	// share is rounded up to a power of two.
	Records uint64
}

// normalise fills in defaults. It returns the number of records in each shard and the number of
// shards.
func (c Config) normalise(processors int) (records uint64, shards int, err error) {
	if _, err := channel.ParseName(c.Name.String()); err != nil {
		return 0, 0, fmt.Errorf("make ring: %w", err)
	}
	if err := c.Settings.Validate(); err != nil {
		return 0, 0, fmt.Errorf("make ring for %s: %w", c.Name, err)
	}
	if c.ManyWriters && c.Policy == channel.Overwrite {
		return 0, 0, fmt.Errorf("make ring for %s: policy overwrite is for one writer: use block "+
			"or drop: %w", c.Name, ErrConfig)
	}
	if c.ManyWriters && c.Stamp != channel.Ordered {
		return 0, 0, fmt.Errorf("make ring for %s: stamp %s is for one writer: use rdtscp: "+
			"%w", c.Name, c.Stamp, ErrConfig)
	}
	if !c.Policy.Known() || !c.Stamp.Known() {
		return 0, 0, fmt.Errorf("make ring for %s: %s or %s is unknown: %w", c.Name, c.Policy,
			c.Stamp, ErrConfig)
	}
	records = c.Records
	if records == 0 {
		records = DefaultRecords
	}
	if records > MaxRecords {
		return 0, 0, fmt.Errorf("make ring for %s: %d records of %d bytes: use at most %d: %w",
			c.Name, records, RecordBytes, MaxRecords, ErrConfig)
	}
	shards = 1
	if c.ManyWriters {
		shards = 1 << bits.Len(uint(min(processors, MaxShards)-1))
		records = max((records+uint64(shards)-1)/uint64(shards), min(records, minShardRecords))
	}
	records = max(records, MinRecords)
	return 1 << bits.Len64(records-1), shards, nil
}

// Producer is the program's end of a ring. Package handlers writes through the shards of the
// Producer.
//
// If a ring has one writer, only one goroutine may use the shard. If a ring has many writers, any
// number of goroutines may use any shard. Any goroutine may call Close at any time. Goroutines that
// are still in a log call then write to memory that nobody reads.
type Producer struct {
	Path        string
	Incarnation [16]byte
	Shards      []Shard
	NodeNumber  int // the node's number; channel.MaxNode + 1: the directory contains none

	file    *os.File // holds the lock: while file is open, the ring is alive
	mapping []byte
	header  *header
	word    *uint64 // the switching word
	closing sync.Once
}

// Create creates the ring file in a directory that MakeDirectory has accepted, locks the file and
// maps it. Create allocates and touches all memory of the ring. So a full file system, or a control
// group's limit, causes an error here and not a fault later.
func Create(dir string, c Config) (*Producer, error) {
	return create(dir, c, runtime.GOMAXPROCS(0))
}

func create(dir string, c Config, processors int) (*Producer, error) {
	records, shards, err := c.normalise(processors)
	if err != nil {
		return nil, err
	}
	p := &Producer{NodeNumber: channel.MaxNode + 1}
	if number, ok, err := NodeNumber(dir); err != nil {
		return nil, fmt.Errorf("make ring for %s: %w", c.Name, err)
	} else if ok {
		p.NodeNumber = number
	}
	if _, err := rand.Read(p.Incarnation[:]); err != nil {
		return nil, fmt.Errorf("make ring for %s: draw incarnation: %w", c.Name, err)
	}
	p.Path = filepath.Join(dir, fileName(c.Name, p.Incarnation))
	part := p.Path + partSuffix
	fd, err := unix.Open(part, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC,
		0o600)
	if err != nil {
		return nil, fmt.Errorf("make ring for %s in %q: set %s to a place where this user may "+
			"write: %w", c.Name, dir, DirectoryVariable, err)
	}
	p.file = os.NewFile(uintptr(fd), part)
	if err := p.prepare(c, records, shards, part); err != nil {
		os.Remove(part)
		p.file.Close()
		return nil, fmt.Errorf("make ring for %s in %q: %w", c.Name, dir, err)
	}
	return p, nil
}

func (p *Producer) prepare(c Config, records uint64, shards int, part string) error {
	size := fileBytes(shards, records)
	// Lock the file before it gets its name. So if a ring's file has its name but no lock, its
	// program has abandoned it.
	if err := lock(p.file); err != nil {
		return err
	}
	if keptInMemory(p.file) {
		if err := CheckMemory(os.DirFS("/"), int64(size)); err != nil {
			return err
		}
	}
	if err := allocate(p.file, int64(size)); err != nil {
		return fmt.Errorf("allocate %d bytes: %s: %w", size, roomAdvice(err), err)
	}
	mapping, err := unix.Mmap(int(p.file.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return fmt.Errorf("map %d bytes: %w", size, err)
	}
	p.mapping = mapping
	// A forked child that does not exec must not write to its parent's ring.
	if err := unix.Madvise(mapping, unix.MADV_DONTFORK); err != nil {
		unix.Munmap(mapping)
		return fmt.Errorf("keep the ring from children: %w", err)
	}
	for i := 0; i < size; i += pageBytes {
		// Write to each page now, so that no log call causes a page fault: MAP_POPULATE has mapped
		// the pages only for reading.
		mapping[i] = 0
	}

	p.header = (*header)(unsafe.Pointer(&mapping[0]))
	p.header.control.slot[chosenSlot] = slot{
		kind: uint64(c.Settings.Kind), a: c.Settings.A, b: c.Settings.B,
	}
	p.word = &p.header.control.word
	if !c.ManyWriters {
		p.word = &(*shard)(unsafe.Pointer(&mapping[shardOffset(0)])).producer.word
	}
	*p.word = uint64(FirstWord(c.Settings.Kind))
	p.identify(c, records, shards)
	p.Shards = make([]Shard, shards)
	lost := lostDrainer(filepath.Dir(p.Path))
	for i := range p.Shards {
		page := (*shard)(unsafe.Pointer(&mapping[shardOffset(i)]))
		first := recordsOffset(shards) + i*int(records)*RecordBytes
		p.Shards[i].init(page, unsafe.Pointer(&mapping[first]), records, c, lost)
		// Write the first journal entry before the ring gets its name. As soon as a drainer sees
		// the name, it may change the settings.
		p.Shards[i].Journal(FirstWord(c.Settings.Kind), c.Settings, p.header.identity.openedCounter)
	}
	if err := os.Rename(part, p.Path); err != nil {
		unix.Munmap(mapping)
		return err
	}
	return nil
}

func (p *Producer) identify(c Config, records uint64, shards int) {
	id := &p.header.identity
	copy(id.magic[:], magic)
	id.version = version
	id.shards = uint32(shards)
	id.records = records
	id.fileBytes = uint64(len(p.mapping))
	id.incarnation = p.Incarnation
	id.boot = Boot()
	now := Now()
	id.openedCounter, id.openedUTCLo_ns, id.openedUTCHi_ns = now.Counter, now.Earliest.UnixNano(),
		now.Latest.UnixNano()
	id.pid, id.pidNamespace = uint32(os.Getpid()), pidNamespace()
	id.nodeNumber = uint32(p.NodeNumber)
	if c.ManyWriters {
		id.manyWriters = 1
	}
	if c.Settings.Kind == channel.Link {
		id.links = 1
	}
	id.policy = uint8(c.Policy)
	id.stamp = uint8(c.Stamp)
	id.nameBytes = uint8(copy(id.name[:], c.Name.String()))
	id.checksum = id.sum()
}

// pidNamespace returns the inode number of this process's PID namespace, or 0 if it cannot be
// found.
func pidNamespace() (inode uint64) {
	var st unix.Stat_t
	if unix.Stat("/proc/self/ns/pid", &st) != nil {
		return 0
	}
	return st.Ino
}

var crcTable = crc32.MakeTable(crc32.Castagnoli)

func (id *identity) sum() uint32 {
	b := unsafe.Slice((*byte)(unsafe.Pointer(id)), unsafe.Offsetof(id.checksum))
	return crc32.Checksum(b, crcTable)
}

// boot is the boot id. It is nil until Boot has got the id from the kernel.
var boot atomic.Pointer[[16]byte]

// Boot returns the random id of the kernel's present boot, which Header.Boot contains too. The id
// is zero if the kernel does not give one. Then nobody can recognize a ring from before a reboot.
// Each call asks the kernel until one call has got the id. Boot keeps this id, so later calls work
// even if the process has no file descriptor left.
func Boot() (id [16]byte) {
	if known := boot.Load(); known != nil {
		return *known
	}
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return id
	}
	b, err := hex.DecodeString(strings.ReplaceAll(strings.TrimSpace(string(text)), "-", ""))
	if err == nil && copy(id[:], b) == len(id) {
		boot.Store(&id)
	}
	return id
}

// allocate makes the file system give the file its blocks, so that no later store finds the file
// system full.
func allocate(f *os.File, size int64) error {
	for {
		err := unix.Fallocate(int(f.Fd()), 0, 0, size)
		if err != unix.EINTR {
			return err
		}
	}
}

func roomAdvice(err error) string {
	if err == unix.EOPNOTSUPP {
		return "this file system cannot allocate in advance: set " + DirectoryVariable +
			" to a place in memory"
	}
	return "use a smaller ring or make room"
}

// Word returns the address of the switching word. The hot path compares the word with the one that
// it adopted last.
func (p *Producer) Word() *uint64 { return p.word }

// Settings returns the switching word and the settings that the word points to now. It does not
// check the settings.
func (p *Producer) Settings() (channel.Settings, Word) { return p.header.control.load(p.word) }

// Raise sets a flag in the ring's first shard.
func (p *Producer) Raise(flag uint64) { p.Shards[0].raise(flag) }

// Snapshot asks the drainer to write the content of the node's flight recorders.
func (p *Producer) Snapshot() { p.Shards[0].ask() }

// Close marks the ring as closed and releases its lock. The drainer then takes the remaining
// records. The address space stays reserved, without memory behind it, because a goroutine may
// still be in a log call. A ring that nobody closes stays alive until the process ends: its mapping
// keeps the lock even if the garbage collector closes the file.
func (p *Producer) Close() error {
	var err error
	p.closing.Do(func() {
		p.Raise(FlagClosed)
		err = detach(p.mapping)
		if closeErr := p.file.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			err = fmt.Errorf("close ring %q: %w", p.Path, err)
		}
	})
	return err
}
