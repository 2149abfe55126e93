package library

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/sim"
)

var id = [32]byte{1, 2, 3}

// runToCheckpoint runs a simulation for some steps and returns a checkpoint.
func runToCheckpoint(t testing.TB, name string, workers, steps int, set ...string) []byte {
	t.Helper()
	s, err := Build(loadConfig(t, name, set...), Options{Workers: workers, Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	for range steps {
		if _, err := s.World.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	var b bytes.Buffer
	if err := s.World.WriteCheckpoint(&b, id); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// continueFrom continues from a checkpoint.
func continueFrom(t testing.TB, b []byte, workers int, name string, set ...string) (*Simulation,
	error) {
	t.Helper()
	s, err := Build(loadConfig(t, name, set...), Options{Workers: workers, Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	return s, s.World.Restore(id, bytes.NewReader(b))
}

// TestRestart continues a simulation from a checkpoint with another number of workers. The result
// must be as if it had not been interrupted.
func TestRestart(t *testing.T) {
	set := []string{"SIZE", "5000", "simulation.endtime", "2*CYCLE"}
	seed.NotUnderRace(t, "TestBarAnyNumberOfWorkersGivesTheSame runs the same code side by side")
	_, want, _ := runConfig(t, loadConfig(t, "churn-ed.conf", set...), 1)
	for _, steps := range []int{0, 1, 17, 60} {
		b := runToCheckpoint(t, "churn-ed.conf", 2, steps, set...)
		s, err := continueFrom(t, b, 3, "churn-ed.conf", set...)
		if err != nil {
			t.Fatal(err)
		}
		var again bytes.Buffer
		err = s.World.WriteCheckpoint(&again, id)
		if err != nil || !bytes.Equal(again.Bytes(), b) {
			t.Errorf("after %d steps: a checkpoint of what was restored differs %v", steps, err)
		}
		if err := s.World.Run(context.Background()); err != nil {
			t.Fatal(err)
		}
		sum, err := s.World.Digest()
		if got := fmt.Sprintf("%x", sum); err != nil || got != want {
			t.Errorf("restarted after %d steps: %s, want %s %v", steps, got, want, err)
		}
	}
}

// TestDamagedCheckpoints changes and cuts a checkpoint.
func TestDamagedCheckpoints(t *testing.T) {
	set := []string{"SIZE", "100", "simulation.endtime", "2*CYCLE"}
	good := runToCheckpoint(t, "churn-ed.conf", 1, 20, set...)
	changed := func(at int) []byte {
		b := bytes.Clone(good)
		b[at] ^= 1
		return b
	}
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"empty":            {nil, sim.ErrNoCheckpoint},
		"other file":       {[]byte("this is text, and no checkpoint"), sim.ErrNoCheckpoint},
		"other version":    {changed(8), sim.ErrVersion},
		"other simulation": {nil, sim.ErrOther},
		"kind":             {changed(10), sim.ErrDamaged},
		"length":           {changed(11), sim.ErrDamaged},
		"world":            {changed(80), sim.ErrDamaged},
		"shard":            {changed(len(good) / 2), sim.ErrDamaged},
		"end":              {changed(len(good) - 1), sim.ErrDamaged},
		"cut off":          {good[:len(good)-17], sim.ErrDamaged},
		"half":             {good[:len(good)/2], sim.ErrDamaged},
	} {
		s, err := Build(loadConfig(t, "churn-ed.conf", set...), Options{Out: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		key := id
		if name == "other simulation" {
			c.b, key = good, [32]byte{9}
		}
		if err := s.World.Restore(key, bytes.NewReader(c.b)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// noRoomBeyond calls a function while no file of this process can be longer than the given size.
func noRoomBeyond(t *testing.T, bytes int64, f func()) {
	t.Helper()
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		t.Fatal(err)
	}
	now := before
	now.Cur = uint64(bytes)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &now); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
			t.Fatal(err)
		}
	}()
	f()
}

// TestLastGoodCheckpointIsKept saves to a full disk (/dev/full behaves like one), and to a disk
// that becomes full in the middle of a checkpoint.
func TestLastGoodCheckpointIsKept(t *testing.T) {
	s, err := Build(loadConfig(t, "churn-ed.conf", "SIZE", "100"), Options{Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if err := s.World.WriteCheckpoint(full, id); err == nil {
		t.Error("a full disk is no error")
	}
	path := filepath.Join(t.TempDir(), "c")
	if err := s.World.SaveCheckpoint(path, id); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.World.SaveCheckpoint(filepath.Join(path, "below a file"), id); err == nil {
		t.Error("a checkpoint without a folder is no error")
	}
	if err := s.World.SaveCheckpoint(os.DevNull, id); err == nil ||
		!strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a device instead of a file: %v", err)
	}
	noRoomBeyond(t, int64(len(good)/2), func() {
		err := s.World.SaveCheckpoint(path, id)
		if err == nil || !strings.Contains(err.Error(), "the older checkpoint there was kept") {
			t.Errorf("a disk with too little room: %v", err)
		}
	})
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("half a checkpoint is left: %v %v", left, err)
	}
	kept, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(kept, good) {
		t.Errorf("the last good checkpoint has changed: %v", err)
	}
	if left, _ := filepath.Glob(path + ".new-*"); len(left) > 0 {
		t.Errorf("%v is left behind", left)
	}
}

// FuzzRestore changes one byte of a checkpoint, or cuts the checkpoint off. In some cases it then
// corrects the checksums. If the result can be restored, the world must be the same when it is
// written and restored again.
func FuzzRestore(f *testing.F) {
	set := []string{"SIZE", "10", "CYCLES", "2"}
	good := runToCheckpoint(f, "average-ed.conf", 1, 5, set...)
	file := loadConfig(f, "average-ed.conf", set...)
	restore := func(b []byte) ([]byte, error) {
		s, err := Build(file.Clone(), Options{Out: io.Discard})
		if err != nil {
			return nil, err
		}
		if err := s.World.Restore(id, bytes.NewReader(b)); err != nil {
			return nil, err
		}
		var again bytes.Buffer
		err = s.World.WriteCheckpoint(&again, id)
		return again.Bytes(), err
	}
	for _, at := range []uint32{9, 19, 60, 80, 90, 100, 120, 140, uint32(len(good) - 60)} {
		f.Add(at, byte(1), uint32(len(good)), true)
	}
	f.Fuzz(func(t *testing.T, at uint32, change byte, cut uint32, repair bool) {
		b := bytes.Clone(good)
		b[at%uint32(len(b))] ^= change
		b = b[:min(int(cut), len(b))]
		if repair {
			sumAgain(b)
		}
		first, err := restore(b)
		if err != nil {
			return
		}
		second, err := restore(first)
		if err != nil || !bytes.Equal(first, second) {
			t.Fatalf("byte %d changed by %d: what was restored is not the same again: %v", at,
				change, err)
		}
	})
}

// sumAgain corrects the checksums of a checkpoint's records.
func sumAgain(b []byte) {
	const head, record = 10, 9
	for at := head; at+record <= len(b); {
		n := binary.LittleEndian.Uint64(b[at+1:])
		if n > uint64(len(b)-at-record) || len(b)-at-record-int(n) < 4 {
			return
		}
		end := at + record + int(n)
		sum := crc32.Checksum(b[at:end], crc32.MakeTable(crc32.Castagnoli))
		binary.LittleEndian.PutUint32(b[end:], sum)
		at = end + 4
	}
}
