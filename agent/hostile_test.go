package agent

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// These are the places to which hostile programs write: offsets in a ring, as in FORMAT.md of
// package ring.
const (
	atRecords     = 16
	atFileBytes   = 24
	atIncarnation = 32
	atChecksum    = 248
	atControl     = 1024
	atWord        = atShard + 48 // the switching word of a ring with one writer
	atShard       = 4096         // the first shard; all shards have the same size
	shardBytes    = 4096
	atTail        = 0 // this offset and those below are relative to a shard
	atJournal     = 24
	atAsked       = 40
	atHead        = 128
)

// hostileProgram is a program that makes rings to do harm.
type hostileProgram struct {
	rings, scratch string
	rng            *rand.Rand
	made           int
}

// image returns the header and the shards of a valid ring with the smallest number of records.
func (v *hostileProgram) image(name string, c ring.Config) []byte {
	var err error
	c.Name, err = channel.ParseName(name)
	must(err)
	c.Settings, c.Policy = channel.Settings{Kind: channel.Buffered}, channel.Drop
	c.Records = ring.MinRecords
	p, err := ring.Create(v.scratch, c)
	must(err)
	b, err := os.ReadFile(p.Path)
	must(err)
	must(p.Close())
	must(os.Remove(p.Path))
	return b[:atShard+shardBytes*len(p.Shards)]
}

// shardsOf returns the number of shards in an image. An image is a header and then the shards.
func shardsOf(image []byte) int { return len(image)/shardBytes - 1 }

// growRecords changes the number of records in each shard of an image. It returns the length that
// the ring's file must have.
func growRecords(image []byte, records int64) (size int64) {
	size = int64(len(image)) + int64(shardsOf(image))*records*ring.RecordBytes
	binary.NativeEndian.PutUint64(image[atRecords:], uint64(records))
	binary.NativeEndian.PutUint64(image[atFileBytes:], uint64(size))
	return size
}

// reserveAll sets the tail of each shard in an image. All records below the tail are then reserved.
func reserveAll(image []byte, tail uint64) {
	for i := range shardsOf(image) {
		binary.NativeEndian.PutUint64(image[atShard+shardBytes*i+atTail:], tail)
	}
}

// hostileRing is a ring that somebody has made to do harm.
type hostileRing struct {
	path string
	*os.File
}

// put makes a ring from an image, with an identity of its own. If size is larger than the image,
// the rest of the file is sparse: put writes nothing there. The ring is locked, like the ring of a
// living program. To make the program look dead, close the ring.
func (v *hostileProgram) put(name string, image []byte, size int64) hostileRing {
	v.made++
	incarnation := image[atIncarnation : atIncarnation+16]
	binary.BigEndian.PutUint64(incarnation, uint64(os.Getpid()))
	binary.BigEndian.PutUint64(incarnation[8:], uint64(v.made))
	sum := crc32.Checksum(image[:atChecksum], crc32.MakeTable(crc32.Castagnoli))
	binary.NativeEndian.PutUint32(image[atChecksum:], sum)
	file := fmt.Sprintf("%s.%x.ring", strings.ReplaceAll(name, "/", "~"), incarnation)
	path := filepath.Join(v.rings, file)
	part := path + ".made"
	must(os.WriteFile(part, image, 0o600))
	must(os.Truncate(part, size))
	f, err := ring.OpenLocked(part)
	must(err)
	must(os.Rename(part, path))
	return hostileRing{path, f}
}

// isThere reports whether the ring's file still exists. The agent removes rings that it has
// drained.
func (m hostileRing) isThere() bool { return m.File != nil && exists(m.path) }

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// remove removes the ring if it exists.
func (m hostileRing) remove() {
	if m.File != nil {
		m.Close()
		os.Remove(m.path)
	}
}

// write stores a word at an offset in the ring.
func (m hostileRing) write(offset int64, v uint64) {
	m.WriteAt(binary.NativeEndian.AppendUint64(nil, v), offset)
}

func (m hostileRing) read(offset int64) uint64 {
	var b [8]byte
	m.ReadAt(b[:], offset)
	return binary.NativeEndian.Uint64(b[:])
}

// open opens a channel with room for 16 records.
func (v *hostileProgram) open(name string) *handlers.Channel {
	c, err := handlers.Open(name, handlers.Options{Dir: v.rings, Policy: "drop", Buffer: "256"})
	must(err)
	return c
}

// kindsOfHarm returns one function for each kind of harm that hostile programs do. The key is a
// description of the harm. Each function commits one crime with the ring that has the given number.
// Hostile programs call the functions every few milliseconds.
func (v *hostileProgram) kindsOfHarm() map[string]func(i int) {
	all := make([]map[int]hostileRing, 8)
	for k := range all {
		all[k] = map[int]hostileRing{}
	}
	shared := func(name string) []byte { return v.image(name, ring.Config{ManyWriters: true}) }
	reserved, sieve := shared("hostile/reserved"), shared("hostile/sieve")
	reserved_bytes := growRecords(reserved, 1<<30/ring.RecordBytes/int64(shardsOf(reserved)))
	reserveAll(reserved, 1<<30/ring.RecordBytes/uint64(shardsOf(reserved)))
	const sieveRecords = 1 << 12
	sieve_bytes := growRecords(sieve, sieveRecords)
	reserveAll(sieve, sieveRecords)
	// All records are in lap 0, in which the lap mark of a finished record is set. Every second
	// record has no mark, so it is a hole.
	for seq := range shardsOf(sieve) * sieveRecords {
		sieve = binary.NativeEndian.AppendUint64(sieve, uint64(seq%2)<<63|uint64(seq))
		sieve = binary.NativeEndian.AppendUint64(sieve, uint64(seq))
	}
	full := v.image("hostile/full", ring.Config{})
	const fullRecords = 2 << 30 / ring.RecordBytes
	full_bytes := growRecords(full, fullRecords)
	plain := v.image("hostile/plain", ring.Config{})
	plain_bytes := growRecords(plain, 1<<12)
	loud := map[int]*handlers.Channel{}
	return map[string]func(i int){
		"1 GiB reserved and never written, by a dead program": func(i int) {
			if !all[0][i].isThere() {
				all[0][i].remove()
				all[0][i] = v.put("hostile/reserved", reserved, reserved_bytes)
				all[0][i].Close()
			}
		},
		"every second record never written, by a dead program": func(i int) {
			if !all[1][i].isThere() && v.rng.IntN(200) == 0 {
				all[1][i].remove()
				all[1][i] = v.put("hostile/sieve", sieve, sieve_bytes)
				all[1][i].Close()
			}
		},
		"2 GiB that are always full": func(i int) {
			m, ok := all[2][i]
			if !ok {
				m = v.put("hostile/full", full, full_bytes)
				all[2][i] = m
			}
			m.write(atShard+atTail, m.read(atShard+atHead)+fullRecords)
		},
		"cut while it is drained": func(i int) {
			m := all[3][i]
			if m.File != nil && v.rng.IntN(2) == 0 {
				m.write(atShard+atTail, m.read(atShard+atTail)+100)
				return
			}
			if m.File != nil && v.rng.IntN(4) > 0 {
				m.Truncate([]int64{0, 4096, 9000}[v.rng.IntN(3)])
				return
			}
			m.remove()
			all[3][i] = v.put("hostile/cut", plain, plain_bytes)
		},
		"random words in its lines": func(i int) {
			m := all[4][i]
			if m.File == nil || v.rng.IntN(20) == 0 {
				m.remove()
				m = v.put("hostile/random", plain, plain_bytes)
				all[4][i] = m
			}
			at := []int64{atControl, atShard}[v.rng.IntN(2)] + 8*v.rng.Int64N(40)
			m.write(at, v.rng.Uint64()>>v.rng.IntN(64))
		},
		"no ring": func(i int) {
			path := filepath.Join(v.rings, fmt.Sprintf("hostile~none.%032x.ring", i))
			if exists(path) {
				if v.rng.IntN(20) == 0 {
					os.Remove(path)
				}
				return
			}
			switch i % 5 {
			case 0:
				os.WriteFile(path, make([]byte, v.rng.IntN(1<<16)), 0o600)
			case 1:
				unix.Mkfifo(path, 0o600)
			case 2:
				os.Symlink("/dev/zero", path)
			case 3:
				os.Mkdir(path, 0o700)
			case 4:
				os.WriteFile(path, append([]byte("CP-RING\n"), make([]byte, 1<<14)...), 0o600)
			}
		},
		"a copy of an honest program's": func(i int) {
			path := filepath.Join(v.rings, fmt.Sprintf("honest~copy.%032x.ring", i))
			if exists(path) {
				if v.rng.IntN(20) == 0 {
					os.Remove(path)
				}
				return
			}
			honest, _ := filepath.Glob(filepath.Join(v.rings, "honest#*.ring"))
			if len(honest) > 0 {
				b, _ := os.ReadFile(honest[v.rng.IntN(len(honest))])
				os.WriteFile(path, b, 0o600)
			}
		},
		"settings, journal and snapshots without end": func(i int) {
			m, ok := all[5][i]
			if !ok || !m.isThere() || v.rng.IntN(100) == 0 {
				m.remove()
				m = v.put("hostile/asks", plain, plain_bytes)
				all[5][i] = m
			}
			m.write(atShard+atAsked, m.read(atShard+atAsked)+1)
			m.write(atWord, m.read(atWord)+1<<16)
			m.write(atShard+atJournal, m.read(atShard+atJournal)+1)
		},
		"more than there is room for": func(i int) {
			if loud[i] == nil {
				loud[i] = v.open(fmt.Sprintf("hostile#%d/loud", i))
			}
			for id := range uint64(100) {
				loud[i].Log(id)
			}
		},
		"opened and abandoned": func(i int) {
			if v.rng.IntN(20) > 0 {
				return
			}
			c := v.open(fmt.Sprintf("hostile#%d/brief", i))
			c.Log(1)
			c.Close()
		},
	}
}

// beHostile commits all crimes, each with a given number of rings at once, until it is killed.
func beHostile(rings, scratch, count string) {
	n, err := strconv.Atoi(count)
	must(err)
	v := &hostileProgram{rings: rings, scratch: scratch, rng: rand.New(rand.NewPCG(1, 2))}
	crimes := v.kindsOfHarm()
	for said := false; ; time.Sleep(20 * time.Millisecond) {
		for _, commit := range crimes {
			for i := range n {
				commit(i)
			}
		}
		if !said {
			fmt.Println("open")
			said = true
		}
	}
}

// While a hostile program has twenty rings of each kind, six honest programs lose no events. Their
// events are in logs almost as soon as without the hostile rings.
func TestBarHostileRings(t *testing.T) {
	const programs, each = 6, 20
	alone, beside := 2*time.Second, 4*time.Second
	if proof.Begin(t) == proof.Full {
		alone, beside = 2*time.Minute, 10*time.Minute
	}
	s := newScene(t)
	s.startSteady(0, func(int) {})
	agent, err := Connect(s.Rings)
	if err != nil {
		t.Fatal(err)
	}
	begun := 0
	run := func(what string, lasts time.Duration) (lost, events uint64, latencies_us []int64) {
		t.Helper()
		honest := map[string]*toldProcess{}
		for range programs {
			name := fmt.Sprintf("honest#%d", begun)
			begun++
			honest[name] = s.startHonest(name)
		}
		time.Sleep(lasts)
		stories := map[string]story{}
		for name, one := range honest {
			stories[name] = one.end()
		}
		testimony.WaitFor(t, "the honest rings to be gone", func() bool {
			left, err := filepath.Glob(filepath.Join(s.Rings, "honest#*.ring"))
			return err == nil && len(left) == 0
		})
		for name, said := range stories {
			lost += s.lost(name, said)
			events += honestChannels * said.Events
			latencies_us = append(latencies_us, said.Latencies_us...)
		}
		t.Logf(
			"%s: %d events, %d lost, drained in %.1f ms at the median, in %.1f ms 99 times of a "+
				"hundred, in %.1f ms at most", what, events, lost,
			percentile(latencies_us, 0.5), percentile(latencies_us, 0.99),
			percentile(latencies_us, 1))
		return lost, events, latencies_us
	}
	lostAlone, _, quiet := run("alone", alone)
	villain := s.tell("hostile", s.Rings, t.TempDir(), strconv.Itoa(each)).open()
	lost, events, loud := run("beside", beside)
	now, err := agent.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rings, %d set aside, %d finished, %d events of all",
		len(now.Channels), now.SetAside, now.Finished, now.Total.Events)
	err = villain.cmd.Process.Signal(syscall.Signal(0))
	if err != nil || now.SetAside < each || now.Finished < each {
		t.Errorf("not all that is hostile was there: %v, %d set aside, %d finished",
			err, now.SetAside, now.Finished)
	}
	proof.Check(t,
		proof.Bar{
			Name: fmt.Sprintf("events that %d honest programs lost beside %d rings of each of ten "+
				"hostile kinds, and not alone", programs, each),
			Figure: max(0, float64(lost)-float64(lostAlone)), Unit: "events"},
		proof.Bar{Name: "events that the honest programs logged meanwhile",
			Figure: float64(events), Limit: 10_000, AtLeast: true, Unit: "events"},
		proof.Bar{
			Name: "time until 99 of a hundred bursts are drained, beside the hostile rings " +
				"relative to alone",
			Figure: percentile(loud, 0.99) / percentile(quiet, 0.99),
			Limit:  2, Unit: "×", Timing: true,
		},
	)
}
