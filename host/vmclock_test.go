package host

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func vmclockPage(disruption, generation uint64) []byte {
	page := make([]byte, 4096)
	binary.LittleEndian.PutUint32(page, vmClockMagic)
	binary.LittleEndian.PutUint32(page[4:], 4096)
	binary.LittleEndian.PutUint16(page[8:], 1)
	binary.LittleEndian.PutUint32(page[0x0c:], 2)
	binary.LittleEndian.PutUint64(page[0x10:], disruption)
	binary.LittleEndian.PutUint64(page[0x18:], vmClockHasGeneration)
	// The field before the generation gets a value of its own, so that the test fails if that field
	// is read in place of the generation.
	binary.LittleEndian.PutUint64(page[0x60:], 0xbad)
	binary.LittleEndian.PutUint64(page[0x68:], generation)
	return page
}

func TestVMClockPages(t *testing.T) {
	good := vmclockPage(5, 9)
	change := func(at int, to byte) []byte {
		page := slices.Clone(good)
		page[at] = to
		return page
	}
	linux := change(0x18, 0)
	binary.LittleEndian.PutUint64(linux[0x18:], 1<<8) // as linux/vmclock-abi.h has it
	tests := map[string]struct {
		page   []byte
		want   VMClock
		stable bool
		err    error
	}{
		"good":          {good, VMClock{5, 9}, true, nil},
		"Linux's flag":  {linux, VMClock{5, 9}, true, nil},
		"exact length":  {good[:0x70], VMClock{5, 9}, true, nil},
		"no generation": {change(0x18, 0), VMClock{5, 0}, true, nil},
		"being changed": {change(0x0c, 3), VMClock{5, 9}, false, nil},
		"short":         {good[:0x6f], VMClock{}, false, ErrVMClock},
		"empty":         {nil, VMClock{}, false, ErrVMClock},
		"wrong magic":   {change(0, 'X'), VMClock{}, false, ErrVMClock},
		"version 2":     {change(8, 2), VMClock{}, false, ErrVMClock},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, stable, err := parseVMClock(test.page)
			if got != test.want || stable != test.stable || !errors.Is(err, test.err) {
				t.Errorf("parse = %+v, %v, %v; want %+v, %v, %v",
					got, stable, err, test.want, test.stable, test.err)
			}
			if test.err == nil && !test.stable {
				root := fstest.MapFS{"dev/vmclock0": {Data: test.page}}
				if _, err := readVMClock(root); !errors.Is(err, ErrVMClock) {
					t.Errorf("a page that never rests = %v, want ErrVMClock", err)
				}
			}
		})
	}
}

func FuzzParseVMClock(f *testing.F) {
	f.Add(vmclockPage(5, 9)[:0x70])
	f.Fuzz(func(t *testing.T, page []byte) {
		v, _, err := parseVMClock(page)
		if err == nil && (len(page) < vmClockSize ||
			v.Disruption != binary.LittleEndian.Uint64(page[0x10:])) {
			t.Fatalf("%x became %+v", page, v)
		}
	})
}

func TestRestoreAnnouncements(t *testing.T) {
	tests := map[string]bool{
		"change@/devices/platform/VMGENCTR:00\x00ACTION=change\x00" +
			"DEVPATH=/devices/platform/VMGENCTR:00\x00SUBSYSTEM=platform\x00" +
			"NEW_VMGENID=1\x00SEQNUM=812\x00": true,
		"add@/devices/virtual/net/veth1\x00ACTION=add\x00INTERFACE=veth1\x00SEQNUM=813\x00": false,
		// Anybody who may write to a uevent file can send this text.
		"change@/x\x00SYNTH_ARG_NEW_VMGENID=1\x00": false,
		"": false,
	}
	for datagram, want := range tests {
		if got := isRestore([]byte(datagram)); got != want {
			t.Errorf("isRestore(%q) = %v, want %v", datagram, got, want)
		}
	}
}

func TestListeningOnThisMachine(t *testing.T) {
	r, err := ListenRestores()
	if err != nil {
		skipOutsideCI(t, "no kernel announcements here: %v", err)
	}
	defer r.Close()
	if n, lost, err := r.Count(); n != 0 || lost || err != nil {
		t.Errorf("Count() = %d, %v, %v just after the start", n, lost, err)
	}
}

func TestWhatCannotBeSeenIsSaid(t *testing.T) {
	tests := map[string]struct {
		clocksource string
		vmclock     bool
		change      func(*WatchOptions)
		want        []string // words that the result contains, one in each line
	}{
		"bare metal on hpet": {"hpet", false, nil, nil},
		"bare metal on tsc":  {"tsc", false, nil, []string{"forward jumps"}},
		"arm64":              {"arch_sys_counter", false, nil, []string{"forward jumps"}},
		"sysfs hidden":       {"", false, nil, []string{"unreadable"}},
		"guest": {"kvm-clock", false, func(o *WatchOptions) { o.Virtual = true },
			[]string{"migration and snapshot restore: by contradiction only"}},
		"guest that listens": {"kvm-clock", false,
			func(o *WatchOptions) { o.Virtual, o.Listening = true, true },
			[]string{"restores before this process began"}},
		"guest with a VMClock": {"tsc", true, func(o *WatchOptions) { o.Virtual = true },
			[]string{"forward jumps"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := newNode()
			n.set(clocksourceDir+"current_clocksource", test.clocksource)
			if test.vmclock {
				n.files["dev/vmclock0"] = &fstest.MapFile{Data: vmclockPage(1, 1)}
			}
			w := n.watch(t, test.change)
			if s := check(t, w); len(s.Blind) != len(test.want)+1 ||
				!strings.Contains(s.Blind[len(test.want)], "not known yet") {
				t.Errorf("at first, blind = %q, want also that the rate is not known", s.Blind)
			}
			n.wait(2 * time.Second)
			check(t, w)
			n.wait(2 * time.Second)
			s := check(t, w)
			if len(s.Blind) != len(test.want) {
				t.Fatalf("blind = %q, want %q", s.Blind, test.want)
			}
			for i := range s.Blind {
				if !strings.Contains(s.Blind[i], test.want[i]) {
					t.Errorf("blind = %q, want %q", s.Blind[i], test.want[i])
				}
			}
			moves := test.change != nil && !test.vmclock
			f := s.finding()
			if s.UnseenMoves != moves || (f.Verdict == Warning) != moves ||
				(f.Remedy != "") != moves {
				t.Errorf("finding = %+v, unseen moves %v, want %v", f, s.UnseenMoves, moves)
			}
		})
	}
}
