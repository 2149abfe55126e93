package agent

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/internal/proof"
	"github.com/cloudprofiler/cloudprofiler/internal/reexec"
	"github.com/cloudprofiler/cloudprofiler/internal/testimony"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// leaveRings makes a process open channels, log once on each, and die. It returns the time until
// the agent has written all of these events to logs.
func leaveRings(t *testing.T, rings int) time.Duration {
	t.Helper()
	c := testConfig(t)
	c.MaxProcessRings = 0
	cmd, err := reexec.Command(c.Rings, strconv.Itoa(rings))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), roleVariable+"=abandoner")
	cmd.Stderr = os.Stderr
	a := startTest(t, c)
	healthy := open(t, c, "healthy/x", handlers.Options{Handler: "id"})
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	died := make(chan error)
	go func() { died <- cmd.Wait() }()
	var id uint64
	for alive := true; alive; {
		select {
		case err := <-died:
			if cmd.ProcessState.ExitCode() >= 0 { // the process ended before it could kill itself
				t.Fatalf("open %d channels: %v", rings, err)
			}
			alive = false
		case <-time.After(time.Millisecond):
			healthy.Log(id)
			id++
		}
	}
	for deadline := time.Now().Add(3 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		files, err := ring.Files(c.Rings)
		if err == nil && len(files) == 1 {
			break
		}
		healthy.Log(id)
		id++
		if time.Now().After(deadline) {
			t.Fatalf("%d rings are left, %v", len(files), err)
		}
	}
	took := time.Since(begin)
	s := a.Status()
	if s.Total.Events < uint64(rings) || s.Finished != uint64(rings) ||
		s.Total.Missing+s.Total.Dropped > 0 {
		t.Errorf("%d rings: %+v, %d finished", rings, s.Total, s.Finished)
	}
	if err := a.Flush(); err != nil {
		t.Fatal(err)
	}
	checkRange(t, "the healthy channel",
		idsIn(t, filepath.Join(c.State, "logs", "000000"), "healthy/x"), 0, id)
	return took
}

func TestAbandonedRings(t *testing.T) { leaveRings(t, 300) }

// If a program opens ten thousand rings and dies, the agent has their content in logs soon.
func TestBarTenThousandAbandonedRings(t *testing.T) {
	if proof.Begin(t) != proof.Full {
		t.Skip("TestAbandonedRings is the small one")
	}
	proof.Check(t, proof.Bar{
		Name:   "10,000 rings opened, abandoned, and in logs",
		Figure: leaveRings(t, 10_000).Seconds(),
		Limit:  120, Unit: "s", Timing: true,
	})
}

// On a full disk the agent lives, and programs wait only for one second. The log continues when the
// disk has space again.
func TestPrivilegedFullDisk(t *testing.T) {
	privileged.Need(t)
	for name, minFree := range map[string]float64{"with space that is to stay free": 0.3,
		"to the last byte": 0} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t)
			c.State = t.TempDir()
			c.MinFree = minFree
			if err := unix.Mount("tmpfs", c.State, "tmpfs", 0, "size=2m,mode=700"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { unix.Unmount(c.State, unix.MNT_DETACH) })
			a := startTest(t, c)
			t.Cleanup(func() { a.Close() }) // runs before the file system is unmounted
			ch := open(t, c, "a/x", handlers.Options{Handler: "id", Buffer: "64KiB"})
			rng := rand.New(rand.NewPCG(1, 1))
			begin := time.Now()
			const calls = 400_000
			for range calls {
				ch.Log(rng.Uint64()) // random ids, which no codec can compress
			}
			took := time.Since(begin)
			if took > 3*time.Second {
				t.Errorf("%d calls took %s", calls, took)
			}
			if minFree > 0 {
				if s := a.Status(); s.Total.NotStored == 0 || s.Total.Dropped > 0 || s.Limit == "" {
					t.Errorf("%+v, limit %q", s.Total, s.Limit)
				}
			} else {
				testimony.WaitFor(t, "the count of what was dropped", func() bool {
					s := a.Status()
					return s.Total.Failures > 0 && s.Total.Dropped > 0
				})
			}
			if err := unix.Mount("tmpfs", c.State, "tmpfs", unix.MS_REMOUNT,
				"size=200m,mode=700"); err != nil {
				t.Fatal(err)
			}
			testimony.WaitFor(t, "the disk", func() bool {
				return a.Flush() == nil && a.Status().Limit == ""
			})
			logIDs(ch, 0, 100)
			ch.Close()
			testimony.WaitFor(t, "the ring to be gone", func() bool {
				files, err := ring.Files(c.Rings)
				return err == nil && len(files) == 0
			})
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			// Each event is in the log or counted as missing.
			for _, segments := range logsOf(t, c.State) {
				k, err := read(segments)
				var out uint64
				for _, n := range k.drops {
					out += n
				}
				if k.events+out != calls+100 {
					t.Errorf("%d events and %d that are not there (%v) of %d: %v", k.events, out,
						k.drops, calls+100, err)
				}
				if last := k.ids[0][len(k.ids[0])-1]; last != 99 {
					t.Errorf("the last id is %d", last)
				}
			}
		})
	}
}
