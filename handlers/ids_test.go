package handlers

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

func openIDs(t *testing.T, dir string, instance int) *IDs {
	t.Helper()
	ids, err := OpenIDs(dir, instance)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ids.Close() })
	return ids
}

func TestIDsCarryNodeAndInstance(t *testing.T) {
	dir := t.TempDir()
	if err := ring.SetNodeNumber(dir, 77); err != nil {
		t.Fatal(err)
	}
	ids := openIDs(t, dir, 5)
	for count := range uint64(3) {
		want, err := channel.NewID(77, 5, count)
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := ids.Next(); !ok || id != want || ids.RandomNode {
			t.Errorf("Next = %#x, %v, want %#x", id, ok, want)
		}
	}
	if !openIDs(t, t.TempDir(), 0).RandomNode {
		t.Error("a directory without a number: RandomNode is false")
	}
}

func TestInstanceHasOneProgram(t *testing.T) {
	dir := t.TempDir()
	first := openIDs(t, dir, 0)
	if _, err := OpenIDs(dir, 0); !errors.Is(err, ErrInstance) ||
		!strings.Contains(err.Error(), "AnyInstance") {
		t.Errorf("second open of instance 0: %v", err)
	}
	id, _ := openIDs(t, dir, AnyInstance).Next()
	if instance := id >> 40 & channel.MaxInstance; instance != 1 {
		t.Errorf("AnyInstance chose %d, want 1", instance)
	}
	first.Close()
	openIDs(t, dir, 0)
}

// If a program dies, nobody gets the unused ids of its lease.
func TestIDsAreNotMadeTwice(t *testing.T) {
	dir := t.TempDir()
	if err := ring.SetNodeNumber(dir, 1); err != nil {
		t.Fatal(err)
	}
	seen := map[uint64]bool{}
	for range 3 {
		ids, err := OpenIDs(dir, 9)
		if err != nil {
			t.Fatal(err)
		}
		for range 10 {
			id, ok := ids.Next()
			if !ok || seen[id] {
				t.Fatalf("id %#x, ok %v, seen %v", id, ok, seen[id])
			}
			seen[id] = true
		}
		ids.file.Close() // the kernel does the same when a program dies
	}
}

func TestIDsAcrossLeasesFromManyGoroutines(t *testing.T) {
	dir := t.TempDir()
	ids := openIDs(t, dir, 2)
	ids.next.Store(idLease - 500)
	var all sync.Map
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for range 1000 {
				id, ok := ids.Next()
				if _, twice := all.LoadOrStore(id, true); twice || !ok {
					t.Errorf("id %#x: ok %v, twice %v", id, ok, twice)
				}
			}
		})
	}
	wait.Wait()
	b, err := os.ReadFile(filepath.Join(dir, "ids-0002"))
	if err != nil || binary.LittleEndian.Uint64(b) != 2*idLease {
		t.Errorf("the file holds %d, %v, want %d", b, err, 2*idLease)
	}
}

func TestIDsEnd(t *testing.T) {
	dir := t.TempDir()
	if err := ring.SetNodeNumber(dir, channel.MaxNode); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "ids-1023")
	if err := os.WriteFile(path, binary.LittleEndian.AppendUint64(nil, channel.MaxCount-2),
		0o600); err != nil {
		t.Fatal(err)
	}
	ids := openIDs(t, dir, channel.MaxInstance)
	for range 2 {
		if id, ok := ids.Next(); !ok || id == channel.Poison {
			t.Fatalf("Next = %#x, %v", id, ok)
		}
	}
	for range 3 {
		if id, ok := ids.Next(); ok {
			t.Fatalf("Next = %#x after the last", id)
		}
	}
	ids.Close()
	if _, err := OpenIDs(dir, channel.MaxInstance); !errors.Is(err, ErrInstance) {
		t.Errorf("an instance without ids left opens: %v", err)
	}
}

func TestOpenIDsRefuses(t *testing.T) {
	dir := t.TempDir()
	for _, instance := range []int{-2, channel.MaxInstance + 1} {
		if _, err := OpenIDs(dir, instance); !errors.Is(err, channel.ErrID) {
			t.Errorf("instance %d: %v", instance, err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "ids-0000"), []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenIDs(dir, 0); err == nil || !strings.Contains(err.Error(), "3 bytes") {
		t.Errorf("a torn file: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "node"), []byte("16384\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenIDs(dir, 1); err == nil || !strings.Contains(err.Error(), "16384") {
		t.Errorf("a bad node number: %v", err)
	}
}

// While the file of an instance cannot be written, calls of Next fail. Calls of many goroutines
// make no id twice, even if the file fails between two calls.
func TestIDsWhileTheFileCannotBeWritten(t *testing.T) {
	ids := openIDs(t, t.TempDir(), 3)
	file := ids.file
	var made sync.Map
	var calls sync.WaitGroup
	for range 8 {
		calls.Go(func() {
			for range 20_000 {
				if id, ok := ids.Next(); ok {
					if _, twice := made.LoadOrStore(id, true); twice {
						t.Errorf("id %#x was made twice", id)
						return
					}
				}
			}
		})
	}
	var ended atomic.Bool
	go func() { calls.Wait(); ended.Store(true) }()
	for writable := false; !ended.Load(); writable = !writable {
		ids.leasing.Lock()
		if ids.file = nil; writable {
			ids.file = file
		}
		ids.leased.Store(ids.next.Load()) // the lease has ended, so the next call needs the file
		ids.leasing.Unlock()
		runtime.Gosched()
	}
	ids.file = file
}
