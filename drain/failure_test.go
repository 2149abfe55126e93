package drain

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/handlers"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// If the system lacks something for a moment, the drainer does not treat a ring as hostile.
func TestCauses(t *testing.T) {
	for _, test := range []struct {
		err  error
		want errorKind
	}{
		{nil, none},
		{unix.EMFILE, temporaryError},
		{unix.ENFILE, temporaryError},
		{unix.ENOMEM, temporaryError},
		{unix.EIO, temporaryError},
		{fmt.Errorf("open ring: %w", os.ErrPermission), temporaryError},
		{errors.New("not known"), temporaryError},
		{logFailure{unix.ENOSPC}, ofLog},
		{fmt.Errorf("wrapped: %w", logFailure{unix.EMFILE}), ofLog},
		{fmt.Errorf("wrapped: %w", ring.ErrDamaged), untrustedRing},
		{ring.ErrShrunk, untrustedRing},
		{ring.ErrVersion, untrustedRing},
		{ring.ErrUntrusted, untrustedRing},
	} {
		if got := causeOf(test.err); got != test.want {
			t.Errorf("the cause of %v is %d, want %d", test.err, got, test.want)
		}
	}
}

// The handler of a healthy channel can change to "counter" while the process has no free
// descriptor.
func TestNoDescriptorIsLeftForACountingChannel(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Handler: "id"})
	c.Log(1)
	r.runFor(2 * checkPeriod)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	give := func(n uint64) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE,
			&unix.Rlimit{Cur: n, Max: limit.Max}); err != nil {
			t.Fatal(err)
		}
	}
	defer give(limit.Cur)
	give(0)
	r.d.SetTable(tableOf(t, "channel: '*', handler: counter"))
	r.runFor(2 * checkPeriod)
	c.Log(2)
	r.runFor(2 * checkPeriod)
	give(limit.Cur)
	if s := r.statsOf("a/b"); s.SetAside != nil || s.Failure != nil {
		t.Fatalf("%+v", s)
	}
	c.Close()
	r.runFor(2 * time.Second)
	k := readLogs(t, r.logs)["a/b"]
	k.checkIntact(t)
	if n := len(k.samples); n == 0 || k.samples[n-1].Count != 1 || r.d.Stats().Finished != 1 {
		t.Errorf("samples %+v, %+v", k.samples, r.d.Stats())
	}
}

// If a ring cannot be removed now, the drainer removes it later.
func TestAPassingErrorPasses(t *testing.T) {
	var r *rig
	away := ""
	r = newRig(t, Options{Fault: func(p FaultPoint) {
		if p == AfterSeal && away == "" {
			away = r.rings + " away"
			info, err := os.Stat(r.rings)
			if err != nil {
				t.Fatal(err)
			}
			// A file takes the place of the directory, so removing the ring fails with ENOTDIR. The
			// file gets the directory's modification time, so that the drainer does not notice the
			// replacement and does not try to lock the directory again.
			when := info.ModTime()
			err = errors.Join(os.Rename(r.rings, away), os.WriteFile(r.rings, nil, 0o600),
				os.Chtimes(r.rings, when, when))
			if err != nil {
				t.Fatal(err)
			}
		}
	}})
	c := r.open("a/b", handlers.Options{Handler: "id"})
	c.Log(1)
	c.Close()
	r.runFor(time.Second)
	s := r.statsOf("a/b")
	if s.SetAside != nil || !errors.Is(s.Failure, unix.ENOTDIR) || len(r.noticed) != 1 {
		t.Fatalf("%+v, noticed %v", s, r.noticed)
	}
	if err := errors.Join(os.Remove(r.rings), os.Rename(away, r.rings)); err != nil {
		t.Fatal(err)
	}
	r.runFor(time.Second)
	if stats := r.d.Stats(); stats.Finished != 1 || len(r.noticed) != 1 {
		t.Errorf("%+v, noticed %v", stats, r.noticed)
	}
	k := readLogs(t, r.logs)["a/b"]
	k.checkIntact(t)
	if k.countRows() != 1 || k.segments != 1 {
		t.Errorf("%d events in %d segments", k.countRows(), k.segments)
	}
}

// No drainer leaves a ring's head in the middle of a pair of records. If a head is there
// nevertheless, the drainer sets the ring aside.
func TestAHeadWithinAPair(t *testing.T) {
	r := newRig(t, Options{})
	c := r.open("a/b", handlers.Options{Handler: "link"})
	for id := range uint64(10) {
		c.Link(id, id+1)
	}
	patchFile(t, c.Path(), atHead, word(3))
	r.runFor(2 * time.Second)
	if s := r.d.Stats().Rings[0]; !errors.Is(s.SetAside, ring.ErrDamaged) || len(r.noticed) != 1 {
		t.Errorf("%+v, noticed %v", s, r.noticed)
	}
}

// A hostile ring may contain any counts, but the sums over rings do not overflow.
func TestHostileCounts(t *testing.T) {
	r := newRig(t, Options{})
	const rings = 8
	for i := range rings {
		c := r.open(fmt.Sprintf("a/%d", i), handlers.Options{Policy: "overwrite"})
		r.runFor(2 * checkPeriod)
		patchFile(t, c.Path(), atTail, word(1<<62))
		patchFile(t, c.Path(), atDropped, word(ring.MaxEvents))
	}
	more := r.open("b/dropped", handlers.Options{})
	counted := r.open("b/counted", handlers.Options{Handler: "counter"})
	cells := r.open("b/cells", handlers.Options{Handler: "first-last"})
	r.runFor(2 * checkPeriod)
	patchFile(t, more.Path(), atDropped, word(ring.MaxEvents+1))
	patchFile(t, counted.Path(), 4096+256, word(ring.MaxEvents+1))
	patchFile(t, cells.Path(), 4096+256+64+8, word(ring.MaxEvents+1))
	r.runFor(3 * time.Second)
	total := r.d.Stats().Total
	if total.Events != 1<<64-1 || total.Dropped < rings*ring.MaxEvents {
		t.Errorf("%+v", total)
	}
	for _, c := range []*handlers.Channel{more, counted, cells} {
		if err := asideFor(r, c.Path()); !errors.Is(err, ring.ErrDamaged) {
			t.Errorf("%s is set aside for %v", c.Name(), err)
		}
	}
	if got := addCapped(1<<63, 1<<63); got != 1<<64-1 {
		t.Errorf("sum is %d", got)
	}
}
