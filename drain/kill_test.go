package drain

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/leak"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// These tests run programs and drainers in processes of their own, and kill the processes with
// SIGKILL.

const roleVariable = "CLOUDPROFILER_DRAIN_TEST_ROLE"

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(leak.Main(m))
	case "program":
		beProgram(os.Args[1], os.Args[2])
	case "idle":
		beIdle(os.Args[1], os.Args[2], os.Args[3])
	case "drainer":
		beDrainer(os.Args[1], os.Args[2], os.Args[3], os.Args[4])
	}
}

// sharedWriters is the number of goroutines that log on the shared channel. countingWriters is the
// number of goroutines that count on a second shared channel.
const sharedWriters, countingWriters = 4, 2

// programRings is the number of rings of beProgram.
const programRings = 4

// beProgram logs until it is killed. It reports in a file what each of its writers logged. Writer 0
// logs on the channel one/x, writer 1 on links/x, the next ones on shared/x, and the last ones on
// counted/x.
func beProgram(rings, file string) {
	said, err := testimony.Open(file)
	must(err)
	open := func(name string, o handlers.Options,
		open func(string, handlers.Options) (*handlers.Channel, error)) *handlers.Channel {
		o.Dir = rings
		c, err := open(name, o)
		must(err)
		return c
	}
	one := open("one/x", handlers.Options{Policy: "drop", Buffer: "64KiB"}, handlers.Open)
	links := open("links/x", handlers.Options{Handler: "link", Buffer: "64KiB"}, handlers.Open)
	shared := open("shared/x", handlers.Options{Handler: "id", Policy: "drop", Buffer: "256KiB"},
		handlers.OpenShared)
	counted := open("counted/x", handlers.Options{Handler: "counter"}, handlers.OpenShared)
	said.Begin(one.Path(), links.Path(), shared.Path(), counted.Path())
	for i := range countingWriters {
		go said.Burst(2+sharedWriters+i, counted.Log)
	}
	for i := range sharedWriters {
		go said.Burst(2+i, func(id uint64) { shared.Log(uint64(i)<<48 | id) })
	}
	go said.Burst(1, func(id uint64) { links.Link(id, id+1) })
	said.Burst(0, one.Log)
}

// beDrainer drains until it is killed. When it reaches the given fault point for the n-th time, it
// kills itself.
func beDrainer(rings, logs, point, count string) {
	testimony.MeetFullDisks()
	n, err := strconv.ParseInt(count, 10, 64)
	must(err)
	o := Options{Logs: logs, Node: "node-1", SegmentBytes: 200_000}
	if point != "" {
		var left atomic.Int64
		left.Store(n)
		o.Fault = func(p FaultPoint) {
			if string(p) == point && left.Add(-1) == 0 {
				syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
		}
	}
	_, err = Start(rings, o)
	must(err)
	select {}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// scene is a directory of rings, with the programs and drainers that use it.
type scene struct {
	*testimony.Stage
	t    testing.TB
	logs string
}

func newScene(t testing.TB) *scene {
	t.Helper()
	return &scene{
		Stage: testimony.NewStage(t, roleVariable), t: t, logs: filepath.Join(t.TempDir(), "logs"),
	}
}

func (s *scene) startDrainer(point string, n int) *exec.Cmd {
	return s.Start("drainer", s.Rings, s.logs, point, strconv.Itoa(n))
}

// drainRest drains what the programs have left. It returns how many records are in the logs, and an
// error for each wrong log.
func (s *scene) drainRest() (records uint64, wrong []error) {
	s.t.Helper()
	d, err := Start(s.Rings, Options{Logs: s.logs, Node: "node-1"})
	if err != nil {
		s.t.Fatal(err)
	}
	testimony.WaitFor(s.t, "the rings to be gone", func() bool {
		files, _ := ring.Files(s.Rings)
		return len(files) == 0
	})
	if err := d.Close(); err != nil {
		s.t.Fatal(err)
	}
	if stats := d.Stats(); len(stats.Rings) > 0 || stats.Total.Missing+stats.Total.Unread > 0 {
		s.t.Fatalf("%+v", stats)
	}
	segments, err := logstore.Segments(s.logs)
	if err != nil {
		s.t.Fatal(err)
	}
	logs := map[string]*logContent{}
	for len(segments) > 0 {
		n := 1
		for n < len(segments) && segments[n].Incarnation == segments[0].Incarnation {
			n++
		}
		k, err := readLog(segments[:n])
		if err != nil {
			s.t.Fatal(err)
		}
		logs[hex.EncodeToString(segments[0].Incarnation[:])] = k
		segments = segments[n:]
	}
	s.Each(func(said *testimony.Testimony) {
		for i, check := range []func(*testimony.Testimony, *logContent) error{checkOne, checkLinks,
			checkShared, checkCounted} {
			ring := said.Incarnation(i)
			k := logs[ring]
			if k == nil {
				wrong = append(wrong, fmt.Errorf("no log of ring %s", ring))
				continue
			}
			if !k.report.Whole() || !k.report.Sealed ||
				k.report.Duplicates+k.report.Overlaps+k.report.Foreign > 0 {
				wrong = append(wrong, fmt.Errorf("log of ring %s: %+v", ring, k.report))
			}
			if rows := k.transitions[0]; len(rows) != 1 || rows[0].Generation != 1 {
				wrong = append(wrong, fmt.Errorf("log of ring %s: settings %+v", ring, rows))
			}
			if err := check(said, k); err != nil {
				wrong = append(wrong, fmt.Errorf("log of ring %s: %w", ring, err))
			}
			records += uint64(k.countRows())
		}
	})
	return records, wrong
}

// inOrder compares ids with what one writer did. Each id below the number of calls that returned
// must be there, or be counted in a range of drops at its place. The event of the call in which the
// program was killed may be there, too.
func inOrder(ids []uint64, drops []logstore.Drop, returned uint64) error {
	gaps := map[uint64]uint64{}
	for _, d := range drops {
		if logstore.Reason(d.Reason) != logstore.RingFull {
			return fmt.Errorf("%+v", d)
		}
		gaps[d.At] += d.Count
	}
	next := uint64(0)
	for row, id := range ids {
		if next += gaps[uint64(row)]; id != next {
			return fmt.Errorf("row %d has id %d, want %d", row, id, next)
		}
		next++
	}
	if next += gaps[uint64(len(ids))]; next != returned && next != returned+1 {
		return fmt.Errorf("%d calls are in the log or dropped, %d have returned", next, returned)
	}
	return nil
}

func checkOne(said *testimony.Testimony, k *logContent) error {
	var ids []uint64
	for _, e := range k.events[0] {
		ids = append(ids, e.ID)
	}
	return inOrder(ids, k.drops[0], said.Returned[0])
}

func checkLinks(said *testimony.Testimony, k *logContent) error {
	var ids []uint64
	for _, l := range k.links[0] {
		if l.Child != l.Parent+1 {
			return fmt.Errorf("link %+v", l)
		}
		ids = append(ids, l.Parent)
	}
	return inOrder(ids, k.drops[0], said.Returned[1])
}

func checkShared(said *testimony.Testimony, k *logContent) error {
	seen := map[uint64]bool{}
	for shard, events := range k.events {
		var next [sharedWriters]uint64
		for _, e := range events {
			writer, id := e.ID>>48, e.ID&(1<<48-1)
			if writer >= sharedWriters || id > said.Returned[2+writer] || id < next[writer] ||
				seen[e.ID] {
				return fmt.Errorf("shard %d: id %#x", shard, e.ID)
			}
			next[writer] = id + 1
			seen[e.ID] = true
		}
	}
	var returned uint64
	for _, n := range said.Returned[2 : 2+sharedWriters] {
		returned += n
	}
	kept := uint64(len(seen)) + k.droppedRows(logstore.RingFull)
	if kept < returned || kept > returned+sharedWriters ||
		k.droppedRows(logstore.NeverWritten) > sharedWriters {
		return fmt.Errorf(
			"%d calls are in the log or dropped, %d have returned, %d were never written", kept,
			returned, k.droppedRows(logstore.NeverWritten))
	}
	return nil
}

func checkCounted(said *testimony.Testimony, k *logContent) error {
	var returned, counted uint64
	for _, n := range said.Returned[2+sharedWriters:] {
		returned += n
	}
	for _, s := range k.samples {
		if s.Count < counted {
			return fmt.Errorf("%d events counted after %d", s.Count, counted)
		}
		counted = s.Count
	}
	if counted < returned || counted > returned+countingWriters {
		return fmt.Errorf("%d events counted, %d calls have returned", counted, returned)
	}
	return nil
}

// killAtRandom kills programs, the drainer, or both, and starts them again, a given number of
// times. Meanwhile the disk fills and empties. The result languages names the languages in which
// the programs are written.
func killAtRandom(t testing.TB, rng *rand.Rand,
	kills int) (languages string, records uint64, wrong []error) {
	t.Helper()
	s := newScene(t)
	languages = s.AlsoC(sharedWriters, true)
	s.KillAtRandom(rng, kills, 60*time.Millisecond, func() *exec.Cmd {
		return s.startDrainer("", 0)
	})
	records, wrong = s.drainRest()
	return languages, records, wrong
}

func TestKillsAtRandom(t *testing.T) {
	kills := 12
	if testing.Short() {
		kills = 4
	}
	_, records, wrong := killAtRandom(t, rand.New(rand.NewPCG(seed.Of(t), 3)), kills)
	for _, err := range wrong {
		t.Error(err)
	}
	if records == 0 {
		t.Error("no records were logged")
	}
	t.Logf("%d records", records)
}

// Every accepted record is in the log exactly once or counted as dropped, whichever process is
// killed. The test kills 1,000 times at random, on a disk that fills and empties, and at every
// fault point.
func TestBarRecordsOnceAfterKills(t *testing.T) {
	kills, rounds := 10, 1
	if proof.Begin(t) == proof.Full {
		kills, rounds = 1000, 5
	}
	rng := rand.New(rand.NewPCG(seed.Of(t), 4))
	languages, records, wrong := killAtRandom(t, rng, kills)
	t.Logf("%d records", records)
	for range rounds {
		for _, point := range FaultPoints() {
			more, others := killAtPoint(t, rng, point)
			records += more
			wrong = append(wrong, others...)
		}
	}
	for i, err := range wrong[:min(len(wrong), 10)] {
		t.Logf("%d: %v", i+1, err)
	}
	proof.Check(t,
		proof.Bar{Name: fmt.Sprintf(
			"logs with a record lost, doubled or uncounted, %d kills at random of programs in %s "+
				"and drainers, on a disk that fills and empties", kills, languages),
			Figure: float64(len(wrong)), Unit: "logs"},
		proof.Bar{
			Name: "records in these logs", Figure: float64(records), Limit: 100_000, AtLeast: true,
			Unit: "records",
		},
	)
}

// killAtPoint makes drainers kill themselves at one fault point, again and again, while programs
// log.
func killAtPoint(t testing.TB, rng *rand.Rand, point FaultPoint) (records uint64, wrong []error) {
	t.Helper()
	s := newScene(t)
	ended := point == BeforeSeal || point == AfterSeal || point == AfterRemove
	deaths := s.KillAtPoint(rng, []int{1, 2, 4, 7, 11, 17, 26}, ended, func(n int) *exec.Cmd {
		return s.startDrainer(string(point), n)
	})
	records, wrong = s.drainRest()
	if deaths == 0 {
		wrong = append(wrong, fmt.Errorf("no drainer has come to %s", point))
	}
	return records, wrong
}

func TestKillAtEveryFaultPoint(t *testing.T) {
	seed.NotUnderRace(t, "TestKillsAtRandom runs the same processes")
	if testing.Short() {
		t.Skip("takes seconds")
	}
	from := seed.Of(t)
	for i, point := range FaultPoints() {
		t.Run(string(point), func(t *testing.T) {
			t.Parallel() // it waits for processes most of the time
			rng := rand.New(rand.NewPCG(from, uint64(5+i)))
			_, wrong := killAtPoint(t, rng, point)
			for _, err := range wrong {
				t.Error(err)
			}
		})
	}
}
