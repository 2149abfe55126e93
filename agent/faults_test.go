package agent

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/seed"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// waitsOf starts a program whose channels have the policy block, and returns how many of its calls
// took a second or more. After the program has opened its channels, and before it logs, waitsOf
// calls whenOpen. In whenOpen, the test ends the draining, so nobody drains the rings during the
// calls.
func waitsOf(t *testing.T, s *testScene, whenOpen func()) (waits int) {
	t.Helper()
	cmd, err := reexec.Command(s.Rings, "1000")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), roleVariable+"=blocker")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { testimony.Kill(cmd) })
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "open" {
		t.Fatalf("the program said %q", lines.Text())
	}
	whenOpen()
	fmt.Fprintln(in)
	if !lines.Scan() {
		t.Fatal("the program did not end")
	}
	if waits, err = strconv.Atoi(lines.Text()); err != nil {
		t.Fatal(err)
	}
	return waits
}

// No matter how an agent ends, a program whose channels have the policy block waits once: for one
// second in one call. The tests of package ring use a simulated clock and check that a wait is
// exactly one second. Here a busy machine may prolong the wait, so the test only counts waits.
func TestProgramsWaitASecondInAll(t *testing.T) {
	drains := func(s *testScene) func() bool {
		return func() bool {
			local, err := Connect(s.Rings)
			if err != nil {
				return false
			}
			status, err := local.Status(t.Context())
			return err == nil && len(status.Channels) == blockers
		}
	}
	for name, test := range map[string]func(t *testing.T, s *testScene) int{
		"never started": func(t *testing.T, s *testScene) int {
			return waitsOf(t, s, func() {})
		},
		"killed": func(t *testing.T, s *testScene) int {
			agent := s.startAgent("", 0)
			return waitsOf(t, s, func() {
				testimony.WaitFor(t, "the agent", drains(s))
				testimony.Kill(agent)
			})
		},
		"stopped": func(t *testing.T, s *testScene) int {
			agent := s.startAgent("", 0)
			return waitsOf(t, s, func() {
				testimony.WaitFor(t, "the agent", drains(s))
				if err := agent.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			})
		},
		"writes to a disk that hangs": func(t *testing.T, s *testScene) int {
			s.startAgent("hang", 0)
			return waitsOf(t, s, func() { testimony.WaitFor(t, "the agent", drains(s)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if waits := test(t, newScene(t)); waits != 1 {
				t.Errorf("it waited %d times, want once for all its %d channels", waits, blockers)
			}
		})
	}
}

// The agent sets aside hostile files, damaged files and files that are not rings, and says why. It
// continues to run, and a healthy channel loses no event.
func TestHostileDirectory(t *testing.T) {
	c := testConfig(t)
	a := startTest(t, c)
	healthy := open(t, c, "healthy/x", handlers.Options{
		Handler: "id", Policy: "drop", Buffer: "16MiB",
	})
	stop := make(chan struct{})
	logged := make(chan uint64)
	go func() {
		id := uint64(0)
		for {
			select {
			case <-stop:
				logged <- id
				return
			default:
				for range 100 {
					healthy.Log(id)
					id++
				}
				time.Sleep(time.Millisecond)
			}
		}
	}()
	rng := rand.New(rand.NewPCG(seed.Of(t), 3))
	name := func(i int) string {
		return filepath.Join(c.Rings, fmt.Sprintf("model~x.%032x.ring", i))
	}
	random := make([]byte, 20_000)
	for i := range random {
		random[i] = byte(rng.Uint32())
	}
	write := func(i int, b []byte) {
		t.Helper()
		if err := os.WriteFile(name(i), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(0, nil)
	write(1, random)
	write(2, random[:100])
	// These rings are whole except for a few random bytes, in the header and in the shard's page.
	whole := open(t, c, "model/x", handlers.Options{Handler: "id", Buffer: "4096"})
	logIDs(whole, 0, 100)
	image, err := os.ReadFile(whole.Path())
	if err != nil {
		t.Fatal(err)
	}
	// named returns a copy of the image with an identity that matches the name of file i. With
	// another identity, the agent would refuse the file for its name alone.
	named := func(i int) []byte {
		b := slices.Clone(image)
		copy(b[32:48], make([]byte, 16))
		b[47] = byte(i)
		binary.NativeEndian.PutUint32(b[248:],
			crc32.Checksum(b[:248], crc32.MakeTable(crc32.Castagnoli)))
		return b
	}
	for i := 10; i < 60; i++ {
		b := named(i)
		for range 1 + rng.IntN(4) {
			at := []int{rng.IntN(256), 1024 + rng.IntN(320), 4096 + rng.IntN(3584)}[rng.IntN(3)]
			b[at] = byte(rng.Uint32())
		}
		write(i, b)
	}
	if err := unix.Mkfifo(name(3), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", name(4)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name(5), 0o700); err != nil {
		t.Fatal(err)
	}
	write(6, named(6)[:5000]) // the file is shorter than its identity says
	if err := os.Link(name(6), filepath.Join(c.Rings, "second-name")); err != nil {
		t.Fatal(err)
	}
	// One of these rings shrinks while the agent drains it. In the other, numbers change at random.
	// Both are locked, as if their programs were alive.
	live := func(i int) *os.File {
		t.Helper()
		part := name(i) + ".made"
		if err := os.WriteFile(part, named(i), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := ring.OpenLocked(part)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		if err := os.Rename(part, name(i)); err != nil {
			t.Fatal(err)
		}
		return f
	}
	shrinks, f := live(7), live(8)
	a.Flush() // makes the agent find both rings; the error is about the bad ones
	if err := shrinks.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		var b [8]byte
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		f.WriteAt(b[:], []int64{4096, 4096 + 128, 4096 + 8, 4096 + 48, 1024}[rng.IntN(5)])
		time.Sleep(5 * time.Millisecond)
	}
	testimony.WaitFor(t, "the ring that shrank", func() bool {
		return slices.ContainsFunc(a.Status().Warnings, func(w string) bool {
			return strings.Contains(w, "shrank")
		})
	})
	status := a.Status()
	close(stop)
	n := <-logged
	if err := a.Flush(); err != nil {
		t.Log(err) // the error is about rings that were set aside in the meantime
	}
	set := 0
	for _, ch := range status.Channels {
		if strings.HasPrefix(ch.Trouble, "set aside: ") {
			set++
		}
	}
	if set < 10 || len(status.Warnings) < 5 {
		t.Errorf("%d rings were set aside, %d warnings", set, len(status.Warnings))
	}
	healthy.Close()
	testimony.WaitFor(t, "the healthy ring", func() bool {
		_, err := os.Stat(healthy.Path())
		return err != nil
	})
	checkRange(t, "the healthy channel",
		idsIn(t, filepath.Join(c.State, "logs", "000000"), "healthy/x"), 0, n)
	// The agent writes nothing outside of its own directory, and removes only rings.
	for _, i := range []int{1, 3, 4, 5, 6} {
		if _, err := os.Lstat(name(i)); err != nil {
			t.Error(err)
		}
	}
}

// If somebody cuts or removes a log, its content is lost. The agent continues this log and all
// others, and the log says what is missing from it.
func TestLogsThatGoAway(t *testing.T) {
	c := testConfig(t)
	a := startTest(t, c)
	ch, other := open(t, c, "a/x", handlers.Options{Handler: "id"}),
		open(t, c, "other/x", handlers.Options{Handler: "id"})
	logs := filepath.Join(c.State, "logs", "000000")
	flush := func() {
		t.Helper()
		if err := a.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	logIDs(ch, 0, 1000)
	logIDs(other, 0, 1000)
	flush()
	files, err := filepath.Glob(filepath.Join(logs, "a~x.*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	if err := os.Truncate(files[0], 2000); err != nil {
		t.Fatal(err)
	}
	logIDs(ch, 1000, 1100)
	flush()
	logIDs(other, 1000, 1100)
	flush()
	checkRange(t, "the other channel", idsIn(t, logs, "other/x"), 0, 1100)
	// The cut log says which rows are missing, and why.
	said := func(prefix string) logstore.Report {
		t.Helper()
		segments, err := logstore.Segments(logs)
		if err != nil {
			t.Fatal(err)
		}
		r := logstore.ReadLog(slices.DeleteFunc(segments, func(s logstore.Segment) bool {
			return !strings.HasPrefix(filepath.Base(s.Path), prefix)
		}))
		defer r.Close()
		for {
			var damage *logstore.CorruptionError
			if _, err := r.Next(); err == io.EOF {
				return r.Report()
			} else if err != nil && !errors.As(err, &damage) {
				t.Fatal(err)
			}
		}
	}
	rows := func(r logstore.Report) (stored, missing, next uint64) {
		for _, a := range r.Rows {
			if a.Kind == logstore.Events {
				stored, next = stored+a.Rows, a.Next
				for _, m := range a.Missing {
					missing += m.To - m.From
				}
				for _, n := range a.Dropped {
					missing += n
				}
			}
		}
		return stored, missing, next
	}
	cut := said("a~x.")
	if stored, missing, next := rows(cut); stored != 100 || missing != 1000 || next != 1100 ||
		len(cut.Damage) != 1 || cut.Whole() {
		t.Errorf("the cut log has %d events, says that %d are missing up to %d: %+v", stored,
			missing, next, cut)
	}
	if err := os.RemoveAll(logs); err != nil {
		t.Fatal(err)
	}
	logIDs(ch, 1100, 1200)
	logIDs(other, 1100, 1200)
	testimony.WaitFor(t, "the directory to be there again", func() bool {
		a.Flush()
		now, _ := filepath.Glob(filepath.Join(logs, "*.cplog"))
		return len(now) == 2
	})
	if lacks := strings.Join(a.missing(), "; "); strings.Count(lacks, "went away") != 2 {
		t.Errorf("a run that ends now lacks: %s", lacks)
	}
	ch.Close()
	other.Close()
	testimony.WaitFor(t, "the rings to be gone", func() bool {
		files, err := ring.Files(c.Rings)
		return err == nil && len(files) == 0
	})
	if s := a.Status(); s.Total.Events != 2400 || s.Total.Removed != 2 {
		t.Errorf("%+v", s.Total)
	}
	// Each log that continues says which rows are gone.
	for _, prefix := range []string{"a~x.", "other~x."} {
		if r := said(prefix); r.Then != logstore.Ended || r.Whole() || len(r.Chain) != 1 {
			t.Errorf("%s in the new directory: %+v", prefix, r)
		} else if stored, missing, next := rows(r); stored != 100 || missing != 1100 ||
			next != 1200 {
			t.Errorf("%s has %d events in the new directory, says that %d are missing up to %d",
				prefix, stored, missing, next)
		}
	}
}
