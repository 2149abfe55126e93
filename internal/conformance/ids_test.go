package conformance

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// lease is how many ids a program reserves at a time in the file of its instance. The last part of
// an id is a count, so a lease is a range of counts.
const lease = 1 << 24

// makes lets the program make several ids: the argument count says how many. The last of them must
// contain the instance number instance, and must end in the number last.
func (w *writer) makes(count, instance int, last uint64) {
	w.t.Helper()
	id, err := channel.NewID(77, instance, last)
	if err != nil {
		w.t.Fatal(err)
	}
	w.says(fmt.Sprint(id), "next %d", count)
}

// Two programs on a node never make the same id. It does not matter in which languages they are
// written, or whether a program closes its ids or dies.
func TestLanguagesMakeDifferentIDs(t *testing.T) {
	for _, first := range slices.Sorted(maps.Keys(writers)) {
		for _, second := range slices.Sorted(maps.Keys(writers)) {
			t.Run(first+"/"+second, func(t *testing.T) {
				a := newScene(t, first)
				b := startWriter(t, second, a.rings)
				a.do("ids 0")
				a.makes(1, 0, 0)
				a.makes(9, 0, 9)
				answer := b.ask("ids 0")
				if !strings.Contains(answer, "instance 0 has another program on this node") {
					t.Errorf("a taken instance: %s", answer)
				}
				b.do("ids -1")
				b.makes(3, 1, 2)
				b.do("close-ids")
				a.do("close-ids")
				b.do("ids 0")
				b.makes(1, 0, lease)
				b.kill()
				a.do("ids -1")
				a.makes(lease+1, 0, 3*lease) // more than a lease
				a.kill()
				if b, err := os.ReadFile(filepath.Join(a.rings, "ids-0000")); err != nil ||
					!slices.Equal(b, []byte{0, 0, 0, 4, 0, 0, 0, 0}) {
					t.Errorf("the file contains %v, %v, want 4 leases", b, err)
				}
			})
		}
	}
}

// In all languages, an instance runs out of ids after the same number of ids, before it would reach
// the poison id.
func TestLanguagesEndIDs(t *testing.T) {
	for language := range writers {
		s := newScene(t, language)
		if err := ring.SetNodeNumber(s.rings, channel.MaxNode); err != nil {
			t.Fatal(err)
		}
		last := filepath.Join(s.rings, "ids-1023")
		// The count is channel.MaxCount - 2.
		if err := os.WriteFile(last, []byte{253, 255, 255, 255, 255, 0, 0, 0}, 0o600); err != nil {
			t.Fatal(err)
		}
		s.do("ids 1023")
		s.says(fmt.Sprint(channel.Poison-1), "next 2")
		s.says("no id", "next 1")
		s.do("close-ids")
		if answer := s.ask("ids 1023"); !strings.Contains(answer, "has made all of its ids") {
			t.Errorf("%s: %s", language, answer)
		}
	}
}

// All languages refuse the same instances, files and directories.
func TestLanguagesRefuseIDs(t *testing.T) {
	write := func(name, text string) func(dir string) error {
		return func(dir string) error {
			return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)
		}
	}
	for order, c := range map[string]struct {
		before func(dir string) error
		says   string
	}{
		"ids -2":   {nil, "instance -2 is not from 0 to 1023"},
		"ids 1024": {nil, "instance 1024 is not from 0 to 1023"},
		"ids 1":    {write("ids-0001", "abc"), "3 bytes"},
		"ids 2":    {write("node", "16384\n"), "16384"},
		"ids 4": {func(dir string) error { return os.Mkdir(filepath.Join(dir, "ids-0004"), 0o700) },
			"ids-0004"},
		"ids 5": {func(dir string) error { return os.Symlink("x", filepath.Join(dir, "ids-0005")) },
			"ids-0005"},
		"ids 6": {func(dir string) error { return os.Chmod(dir, 0o777) }, "others may write"},
	} {
		for language := range writers {
			s := newScene(t, language)
			if c.before != nil {
				if err := c.before(s.rings); err != nil {
					t.Fatal(err)
				}
			}
			if answer := s.ask("%s", order); !strings.Contains(answer, c.says) {
				t.Errorf("%s: %q: %s, want %q", language, order, answer, c.says)
			}
		}
	}
}
