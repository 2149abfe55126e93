package handlers

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/privileged"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// isNoOp checks that all methods of a channel can be called and do nothing.
func isNoOp(t *testing.T, c *Channel) {
	t.Helper()
	if c == nil {
		t.Fatal("no channel came with the error")
	}
	c.Log(1)
	c.Link(1, 2)
	if c.Path() != "" {
		t.Errorf("a channel that did not open has a ring %q", c.Path())
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	c.Log(1)
}

func TestOpenRefuses(t *testing.T) {
	tests := map[string]struct {
		name    string // the name of the channel; "": a good name
		many    bool
		options Options
		is      error
		says    string // what the error must contain: what is wrong, and what to do
	}{
		"unknown handler": {options: Options{Handler: "identity"},
			is: channel.ErrHandler, says: `"identity": use one of null, id, buffered`},
		"handler in capitals": {options: Options{Handler: "ID"}, is: channel.ErrHandler,
			says: `use one of`},
		"n is zero": {options: Options{Handler: "downsample",
			Params: channel.Params{"n": 0}}, is: channel.ErrParameter, says: "n of 1 or more"},
		"n is zero with a unit": {options: Options{Handler: "downsample",
			Params: channel.Params{"n": "0Ki"}}, is: channel.ErrParameter, says: "n of 1 or more"},
		"n is negative": {options: Options{Handler: "downsample",
			Params: channel.Params{"n": -1}}, is: channel.ErrParameter,
			says: "-1: not a whole number"},
		"n is negative text": {options: Options{Handler: "downsample",
			Params: channel.Params{"n": "-1"}}, is: channel.ErrParameter,
			says: `"-1": not a whole number`},
		"n is a fraction": {options: Options{Handler: "downsample",
			Params: channel.Params{"n": 1.5}}, is: channel.ErrParameter,
			says: "not a whole number"},
		"n is nothing": {options: Options{Handler: "downsample",
			Params: channel.Params{"n": nil}}, is: channel.ErrParameter,
			says: "not a whole number"},
		"n is missing": {options: Options{Handler: "downsample"},
			is: channel.ErrParameter, says: `"n" is missing`},
		"n has an unknown unit": {options: Options{Handler: "downsample",
			Params: channel.Params{"n": "1Q"}}, is: channel.ErrParameter, says: "use K, M, G, T"},
		"n does not fit": {options: Options{Handler: "downsample",
			Params: channel.Params{"n": "99999999999T"}}, is: channel.ErrParameter,
			says: "above 18446744073709551615"},
		"y is zero": {options: Options{Handler: "xoy",
			Params: channel.Params{"x": 0, "y": 0}}, is: channel.ErrParameter,
			says: "y of 1 or more"},
		"x is negative": {options: Options{Handler: "xoy",
			Params: channel.Params{"x": -2, "y": 10}}, is: channel.ErrParameter,
			says: "-2: not a whole number"},
		"x is above y": {options: Options{Handler: "xoy",
			Params: channel.Params{"x": 11, "y": 10}}, is: channel.ErrParameter,
			says: "x = 11 is above y = 10"},
		"y is missing": {options: Options{Handler: "xoy",
			Params: channel.Params{"x": 1}}, is: channel.ErrParameter,
			says: `"y" is missing: it takes x and y`},
		"a parameter of another": {options: Options{Handler: "xoy",
			Params: channel.Params{"n": 1}}, is: channel.ErrParameter, says: "takes x and y"},
		"a parameter where none is": {options: Options{Handler: "id",
			Params: channel.Params{"n": 1}}, is: channel.ErrParameter, says: "takes none"},
		"period is too short": {options: Options{Handler: "counter",
			Params: channel.Params{"period": "1us"}}, is: channel.ErrParameter,
			says: "from 1ms up"},
		"period is negative": {options: Options{Handler: "counter",
			Params: channel.Params{"period": "-1s"}}, is: channel.ErrParameter, says: "period"},
		"no name": {name: "\x00", is: channel.ErrName,
			says: "write actor/point"},
		"name without a point": {name: "parser", is: channel.ErrName,
			says: "write actor/point"},
		"name leads upwards": {name: "../../etc/passwd", is: channel.ErrName,
			says: "starts with '.'"},
		"name with dots for a point": {name: "a/..", is: channel.ErrName,
			says: "start it with a letter"},
		"name is absolute":      {name: "/etc", is: channel.ErrName, says: "empty actor"},
		"name has more slashes": {name: "a/b/c", is: channel.ErrName, says: `point has "/"`},
		"name has a tilde": {name: "a~b/c", is: channel.ErrName,
			says: "use letters, digits"},
		"name has a newline":   {name: "a\nb/c", is: channel.ErrName, says: `has "\n"`},
		"name has a zero byte": {name: "a/b\x00", is: channel.ErrName, says: `has "\x00"`},
		"name has an escape":   {name: "a\x1b[2J/b", is: channel.ErrName, says: `has "\x1b"`},
		"name has no ASCII":    {name: "ä/b", is: channel.ErrName, says: "use letters, digits"},
		"name is too long": {name: strings.Repeat("a", 127) + "/b", is: channel.ErrName,
			says: "129 bytes, at most 128"},
		"instance is too large": {name: "a#1024/b", is: channel.ErrName, says: "from 0 to 1023"},
		"instance is negative":  {name: "a#-1/b", is: channel.ErrName, says: "from 0 to 1023"},
		"instance is empty":     {name: "a#/b", is: channel.ErrName, says: "from 0 to 1023"},
		"unknown policy": {options: Options{Policy: "wait"}, is: channel.ErrPolicy,
			says: "use one of block, drop, overwrite"},
		"unknown stamp": {options: Options{Stamp: "tsc"}, is: channel.ErrStamp,
			says: "use one of rdtscp, rdtsc"},
		"buffer is no number": {options: Options{Buffer: "much"}, is: channel.ErrParameter,
			says: `option Buffer: read "much"`},
		"buffer is negative": {options: Options{Buffer: "-1MiB"}, is: channel.ErrParameter,
			says: "option Buffer"},
		"buffer is nothing": {options: Options{Buffer: "0"}, is: channel.ErrParameter,
			says: "a record takes 16 bytes"},
		"buffer is less than one": {options: Options{Buffer: "15"}, is: channel.ErrParameter,
			says: "a record takes 16 bytes"},
		"buffer is too large": {options: Options{Buffer: "1TiB"}, is: ring.ErrConfig,
			says: "at most 268435456"},
		"buffer is all there is": {options: Options{Buffer: "18446744073709551615"},
			is: ring.ErrConfig, says: "at most 268435456"},
		"shared with overwrite": {many: true, options: Options{Policy: "overwrite"},
			is: ring.ErrConfig, says: "use block or drop"},
		"shared with rdtsc": {many: true, options: Options{Stamp: "rdtsc"}, is: ring.ErrConfig,
			says: "use rdtscp"},
	}
	for what, test := range tests {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			test.options.Dir = dir
			if test.name == "" {
				test.name = "actor/start"
			}
			c, err := open(test.name, test.options, test.many)
			if err == nil {
				t.Fatal("it opened")
			}
			if !errors.Is(err, test.is) || !strings.Contains(err.Error(), test.says) ||
				!strings.HasPrefix(err.Error(), "open channel") {
				t.Errorf("error %q, want %q in it and to wrap %q", err, test.says, test.is)
			}
			if test.is != channel.ErrName && !strings.HasPrefix(err.Error(),
				"open channel "+test.name+": ") {
				t.Errorf("error %q does not say which channel", err)
			}
			isNoOp(t, c)
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("%s was left behind", left[0].Name())
			}
		})
	}
}

func TestOpenNamesTheDirectory(t *testing.T) {
	dir := t.TempDir()
	file, link, open := filepath.Join(dir, "file"), filepath.Join(dir, "link"),
		filepath.Join(dir, "open")
	for _, err := range []error{os.WriteFile(file, nil, 0o600), os.Symlink(dir, link),
		os.Mkdir(open, 0o700), os.Chmod(open, 0o777)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	tests := map[string]struct{ dir, says string }{
		"a file":         {file, "set CLOUDPROFILER_DIR"},
		"below a file":   {filepath.Join(file, "rings"), "set CLOUDPROFILER_DIR"},
		"a link":         {link, "name its target in CLOUDPROFILER_DIR"},
		"open to others": {open, "chmod 700"},
		"no place":       {"/proc/cloudprofiler", "set CLOUDPROFILER_DIR"},
	}
	if os.Geteuid() != 0 { // root may write whatever the file mode is
		closed := filepath.Join(dir, "closed")
		if err := os.Mkdir(closed, 0o500); err != nil {
			t.Fatal(err)
		}
		tests["read-only"] = struct{ dir, says string }{closed, "set CLOUDPROFILER_DIR"}
	}
	for what, test := range tests {
		c, err := Open("actor/start", Options{Dir: test.dir})
		if err == nil || !strings.Contains(err.Error(), test.says) ||
			!strings.Contains(err.Error(), test.dir) {
			t.Errorf("%s: error %v, want %q in it", what, err, test.says)
		}
		isNoOp(t, c)
	}
}

func TestOpenNeedsAFitCounter(t *testing.T) {
	was := cpuFeatures
	defer func() { cpuFeatures = was }()
	for what, test := range map[string]struct {
		features asm.Features
		says     string
	}{
		"not invariant": {asm.Features{CPU: "Old", Ordered: true}, "+invtsc"},
		"no RDTSCP":     {asm.Features{CPU: "Older", Invariant: true}, "no RDTSCP"},
	} {
		cpuFeatures = func() asm.Features { return test.features }
		c, err := Open("actor/start", Options{Dir: t.TempDir()})
		if !errors.Is(err, asm.ErrUnfit) || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: error %v, want %q in it", what, err, test.says)
		}
		isNoOp(t, c)
	}
}

func TestOpenOptions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "for it")
	t.Setenv(ring.DirectoryVariable, dir)
	c, err := Open("parser#3/send",
		Options{Handler: "xoy", Params: channel.Params{"x": "1Ki", "y": "1KB"}, Buffer: "1000"})
	if err == nil {
		t.Fatal("x = 1024 above y = 1000 opened")
	}
	isNoOp(t, c)
	c, err = Open("parser#3/send",
		Options{Handler: "xoy", Params: channel.Params{"x": "2", "y": "1Ki"}, Buffer: "1000",
			Stamp: "rdtsc", Policy: "overwrite"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := ring.Open(c.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	h := r.Header()
	if filepath.Dir(c.Path()) != dir || h.Name != c.Name() ||
		c.Name().String() != "parser#3/send" || h.Records != 64 || h.Stamp != channel.Unordered ||
		h.Policy != channel.Overwrite || h.ManyWriters {
		t.Errorf("ring %q has header %+v", c.Path(), h)
	}
	if s, _, err := r.Settings(); err != nil ||
		s != (channel.Settings{Kind: channel.XoY, A: 2, B: 1024}) {
		t.Errorf("settings %v, %v", s, err)
	}
}

// TestPrivilegedOpenWithoutRoom mounts file systems on a thread with a mount namespace of its own.
// The mounts end with the thread.
func TestPrivilegedOpenWithoutRoom(t *testing.T) {
	privileged.Need(t)
	type result struct {
		full, small, readOnly error
		left                  int
	}
	dir, results, failures := t.TempDir(), make(chan result, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with the goroutine
		var r result
		failures <- func() error {
			if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
				return err
			}
			if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
				return err
			}
			if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k,mode=700"); err != nil {
				return err
			}
			_, r.full = Open("actor/start", Options{Dir: dir, Buffer: "1MiB"})
			entries, err := os.ReadDir(dir)
			if err != nil {
				return err
			}
			r.left = len(entries)
			var c *Channel
			c, r.small = Open("actor/start", Options{Dir: dir, Buffer: "64KiB"})
			for range 10_000 {
				c.Log(1)
			}
			c.Close()
			if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
				return err
			}
			_, r.readOnly = Open("actor/start", Options{Dir: dir})
			return nil
		}()
		results <- r
	}()
	if err := <-failures; err != nil {
		t.Fatalf("mount a file system for the test: %v", err)
	}
	r := <-results
	if !errors.Is(r.full, syscall.ENOSPC) || !strings.Contains(r.full.Error(), "make room") ||
		r.left != 0 {
		t.Errorf("full file system: %v, %d files left", r.full, r.left)
	}
	if r.small != nil {
		t.Errorf("a ring with room: %v", r.small)
	}
	if !errors.Is(r.readOnly, syscall.EROFS) ||
		!strings.Contains(r.readOnly.Error(), "set CLOUDPROFILER_DIR") {
		t.Errorf("read-only file system: %v", r.readOnly)
	}
}
