package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"
)

// A Filter says which messages are captured. A message is captured if each list that is not empty
// has an element that applies to the message. The programs in the kernel apply the filter, so
// excluded messages cost less than captured ones.
type Filter struct {
	Programs []string // names of processes; the kernel keeps 15 bytes of each
	CGroups  []string // paths in the hierarchy of version 2; groups below a path are included
	Ports    []uint16 // port of either end
}

// mostOf is the largest number of elements of each kind that a filter may have.
const mostOf = 16

// ErrFilter is returned for a text that is not a filter.
var ErrFilter = errors.New("is not a filter: use program=NAME, cgroup=/PATH and port=NUMBER, " +
	"separated by spaces")

// ParseFilter reads a filter such as "program=nginx program=redis-server port=6379". An empty text
// is a filter to which everything applies.
func ParseFilter(text string) (f Filter, err error) {
	for _, word := range strings.Fields(text) {
		kind, value, _ := strings.Cut(word, "=")
		switch {
		case kind == "program" && value != "":
			f.Programs = append(f.Programs, value)
		case kind == "cgroup" && strings.HasPrefix(value, "/"):
			f.CGroups = append(f.CGroups, filepath.Clean(value))
		case kind == "port":
			port, parseErr := strconv.ParseUint(value, 10, 16)
			if parseErr != nil || port == 0 {
				return f, fmt.Errorf("%q %w", word, ErrFilter)
			}
			f.Ports = append(f.Ports, uint16(port))
		default:
			return f, fmt.Errorf("%q %w", word, ErrFilter)
		}
	}
	if max(len(f.Programs), len(f.CGroups), len(f.Ports)) > mostOf {
		return f, fmt.Errorf("%q has more than %d elements of one kind", text, mostOf)
	}
	return f, nil
}

// kernelFilter is a Filter in the form in which the programs in the kernel compare it.
type kernelFilter struct {
	programs [][2]uint64 // names of processes, each as two words
	cgroups  []cgroup
	ports    []uint16
}

type cgroup struct {
	level  int // 0: the root
	number uint64
}

func (f Filter) resolve() (c kernelFilter, err error) {
	c.ports = f.Ports
	for _, name := range f.Programs {
		var b [16]byte
		copy(b[:15], name)
		c.programs = append(c.programs, [2]uint64{
			binary.NativeEndian.Uint64(b[:]), binary.NativeEndian.Uint64(b[8:]),
		})
	}
	if len(f.CGroups) == 0 {
		return c, nil
	}
	root, err := cgroupRoot()
	for _, path := range f.CGroups {
		if err != nil {
			return c, fmt.Errorf("cgroup %q: %w", path, err)
		}
		var s unix.Stat_t
		if err := unix.Stat(filepath.Join(root, path), &s); err != nil {
			return c, fmt.Errorf("cgroup %q below %q: %w", path, root, err)
		}
		level := strings.Count(path, "/")
		if path == "/" {
			level = 0
		}
		c.cgroups = append(c.cgroups, cgroup{level, s.Ino})
	}
	return c, nil
}

// cgroupRoot returns the directory at which the hierarchy of version 2 is mounted.
func cgroupRoot() (string, error) {
	mounts, err := os.Open("/proc/self/mounts")
	if err != nil {
		return "", err
	}
	defer mounts.Close()
	for lines := bufio.NewScanner(mounts); lines.Scan(); {
		if words := strings.Fields(lines.Text()); len(words) > 2 && words[2] == "cgroup2" {
			return words[1], nil
		}
	}
	return "", errors.New("cgroups of version 2 are not mounted here: choose programs instead")
}

// chooseThread makes eBPF code. If the filter excludes the thread, the code notes that in the
// thread's entry, and ends the eBPF program. Later eBPF programs see the note, and end without
// looking at the filter. R8 is the thread, and R9 its entry.
func (w *writer) chooseThread() {
	c := w.chosen
	if len(c.programs) > 0 {
		w.add(
			asm.FnGetCurrentTaskBtf.Call(),
			asm.LoadMem(asm.R1, asm.R0, w.f.leader, asm.DWord),
			asm.LoadMem(asm.R2, asm.R1, w.f.name, asm.DWord),
			asm.LoadMem(asm.R3, asm.R1, w.f.name+8, asm.DWord),
		)
		for i, name := range c.programs {
			next := fmt.Sprint("program ", i+1)
			w.add(
				asm.Mov.Imm(asm.R1, 0).WithSymbol(fmt.Sprint("program ", i)),
				asm.LoadImm(asm.R4, int64(name[0]), asm.DWord),
				asm.JNE.Reg(asm.R2, asm.R4, next),
				asm.LoadImm(asm.R4, int64(name[1]), asm.DWord),
				asm.JEq.Reg(asm.R3, asm.R4, "program"),
			)
		}
		last := fmt.Sprint("program ", len(c.programs))
		w.add(asm.Ja.Label("other thread").WithSymbol(last))
		w.add(asm.Mov.Imm(asm.R1, 0).WithSymbol("program"))
	}
	for _, g := range c.cgroups {
		w.add(
			asm.Mov.Imm(asm.R1, int32(g.level)),
			asm.FnGetCurrentAncestorCgroupId.Call(),
			asm.LoadImm(asm.R2, int64(g.number), asm.DWord),
			asm.JEq.Reg(asm.R0, asm.R2, "chosen"),
		)
	}
	if len(c.cgroups) == 0 {
		w.add(asm.Ja.Label("chosen"))
	}
	w.add(
		asm.StoreMem(asm.R9, threadSkipped, asm.R8, asm.DWord).WithSymbol("other thread"),
		asm.Ja.Label("end"),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("chosen"),
	)
}

// choosePort checks whether the filter excludes the socket's ports. If so, it loads kindUnwanted
// into R3 and jumps to the label "kind". R1 is the socket's family.
func (w *writer) choosePort() {
	w.add(
		asm.JEq.Imm(asm.R1, unix.AF_UNIX, "other port"),
		asm.LoadMem(asm.R1, asm.R7, w.f.localPort, asm.Half),
		asm.LoadMem(asm.R2, asm.R7, w.f.remotePort, asm.Half),
	)
	for _, port := range w.chosen.ports {
		var b [2]byte
		binary.BigEndian.PutUint16(b[:], port)
		w.add(
			asm.JEq.Imm(asm.R1, int32(port), "port"),
			asm.JEq.Imm(asm.R2, int32(binary.NativeEndian.Uint16(b[:])), "port"),
		)
	}
	w.add(
		asm.Mov.Reg(asm.R1, asm.R7).WithSymbol("other port"),
		asm.FnGetSocketCookie.Call(),
		asm.Mov.Imm(asm.R3, kindUnwanted),
		asm.Ja.Label("kind"),
		asm.Mov.Imm(asm.R1, 0).WithSymbol("port"),
	)
}
