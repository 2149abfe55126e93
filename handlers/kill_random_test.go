package handlers

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

func init() { programs["load"] = loadProgram }

// The load program's writers log at full speed. Each writer counts its calls that have returned.
// The count is in a mapped file, which outlives the program.
const (
	loadDirectory = "LOAD_DIRECTORY"
	loadPolicy    = "LOAD_POLICY"
	loadWriters   = "LOAD_WRITERS"

	loadFile      = "returned"
	loadWriterGap = 64 // bytes from one writer's count to the next writer's
	loadShift     = 48 // ids are writer<<loadShift | number
)

func loadProgram() error {
	dir := os.Getenv(loadDirectory)
	writers, err := strconv.Atoi(os.Getenv(loadWriters))
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, loadFile), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, writers*loadWriterGap, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED)
	if err != nil {
		return err
	}
	c, err := open("load/start",
		Options{Handler: "id", Policy: os.Getenv(loadPolicy), Buffer: "16KiB", Dir: dir},
		writers > 1)
	if err != nil {
		return err
	}
	fmt.Println(c.Path())
	for w := range writers {
		go func() {
			returned := (*uint64)(unsafe.Pointer(&memory[w*loadWriterGap]))
			for n := uint64(0); ; n++ {
				c.Log(uint64(w)<<loadShift | n)
				atomic.StoreUint64(returned, n+1)
			}
		}()
	}
	select {}
}

// No matter how a program is killed, every event whose call had returned is in the log once and in
// order, or is counted as dropped. For each writer, the log may also contain the event of the one
// call that was running.
func TestKillAtRandomInstants(t *testing.T) { killAtRandomInstants(t, 8) }

func TestBarKillAtRandomInstants(t *testing.T) {
	kills := 100
	if proof.Begin(t) == proof.Full {
		kills = 300
	}
	bars := killAtRandomInstants(t, kills)
	if t.Failed() {
		return // the failure says which events were lost
	}
	proof.Check(t, bars...)
}

func killAtRandomInstants(t *testing.T, kills int) (bars []proof.Bar) {
	draw := seed.Random(t)
	for _, policy := range []string{"block", "drop"} {
		for _, writers := range []int{1, 3} {
			name := fmt.Sprintf("%s, %d writers", policy, writers)
			t.Run(name, func(t *testing.T) {
				all, dropped, holes := 0, uint64(0), 0
				for range kills {
					d := killUnderLoad(t, policy, writers,
						time.Duration(draw.Int64N(int64(10*time.Millisecond))))
					for _, shard := range d.takenRecords {
						all += len(shard)
					}
					dropped += d.dropped
					holes += d.holes
				}
				t.Logf("%d kills: %d events logged, %d dropped, %d holes", kills, all, dropped,
					holes)
				if all == 0 {
					t.Error("nothing was logged")
				}
			})
			bars = append(bars,
				proof.Bar{Name: "kills at random instants, every event accounted for: " + name,
					Figure: float64(kills), Limit: 100, AtLeast: true, Unit: "kills"})
		}
	}
	return bars
}

func killUnderLoad(t *testing.T, policy string, writers int, after time.Duration) *drain {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, loadFile), make([]byte, writers*loadWriterGap),
		0o600); err != nil {
		t.Fatal(err)
	}
	memory := mapFile(t, filepath.Join(dir, loadFile))
	cmd := programCommand(t, "load", loadDirectory+"="+dir, loadPolicy+"="+policy,
		loadWriters+"="+strconv.Itoa(writers))
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	startProgram(t, cmd)
	var path string
	if _, err := fmt.Fscanln(out, &path); err != nil {
		t.Fatal(err)
	}
	d, err := newDrain(path)
	if err != nil {
		t.Fatal(err)
	}
	defer d.consumer.Close()
	for begun := time.Now(); time.Since(begun) < after; {
		if _, err := d.drainOnce(false); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for alive := true; alive; {
		if alive, err = d.consumer.Alive(); err != nil {
			t.Fatal(err)
		}
		if _, err := d.drainOnce(false); err != nil {
			t.Fatal(err)
		}
	}
	cmd.Wait()
	if err := d.finishDrain(); err != nil {
		t.Fatal(err)
	}
	returned := make([]uint64, writers)
	for w := range returned {
		returned[w] = atomic.LoadUint64((*uint64)(unsafe.Pointer(&memory[w*loadWriterGap])))
	}
	if err := compareCounts(d, returned, policy == "block" && d.lookedOften()); err != nil {
		t.Fatalf("%s, %d writers, killed after %v, %v calls returned: %v", policy, writers, after,
			returned, err)
	}
	return d
}

// compareCounts compares each writer's drained records with the number of its calls that returned.
func compareCounts(d *drain, returned []uint64, lossless bool) error {
	byWriter := make([][]ring.Record, len(returned))
	for i, shard := range d.takenRecords {
		before := make(map[uint64]uint64)
		for seq, r := range shard {
			w := r.ID >> loadShift
			if w >= uint64(len(returned)) {
				return fmt.Errorf("shard %d: record %d has id %#x", i, seq, r.ID)
			}
			if last, ok := before[w]; ok && r.ID <= last {
				return fmt.Errorf("shard %d: record %d has id %#x after %#x", i, seq, r.ID, last)
			}
			before[w] = r.ID
			byWriter[w] = append(byWriter[w], r)
		}
	}
	logged, accepted := uint64(0), uint64(0)
	for w, records := range byWriter {
		sort.Slice(records, func(i, k int) bool { return records[i].ID < records[k].ID })
		for i, r := range records {
			n := r.ID & (1<<loadShift - 1)
			const skew = 10_000 // largest difference between the counters of two cores
			switch {
			case n > returned[w]:
				return fmt.Errorf("writer %d: event %d was not logged", w, n)
			case i > 0 && r.ID == records[i-1].ID:
				return fmt.Errorf("writer %d: event %d is there twice", w, n)
			case i > 0 && r.Counter+skew < records[i-1].Counter:
				return fmt.Errorf("writer %d: event %d at %d, the one before it at %d",
					w, n, r.Counter, records[i-1].Counter)
			case lossless && n != uint64(i):
				return fmt.Errorf("writer %d: event %d is missing", w, i)
			}
		}
		if lossless && uint64(len(records)) < returned[w] {
			return fmt.Errorf("writer %d: %d events, %d calls returned",
				w, len(records), returned[w])
		}
		logged += uint64(len(records))
		accepted += returned[w]
	}
	if lossless && d.dropped > 0 {
		return fmt.Errorf("%d events dropped", d.dropped)
	}
	if sum := logged + d.dropped; sum < accepted || sum > accepted+uint64(len(returned)) {
		return fmt.Errorf("%d logged and %d dropped make %d, %d calls returned",
			logged, d.dropped, sum, accepted)
	}
	if d.holes > len(returned) {
		return fmt.Errorf("%d holes of %d writers", d.holes, len(returned))
	}
	return nil
}
