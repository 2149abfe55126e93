package capture

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// otherWay is the advice for machines where no capture is possible.
const otherWay = "or let LD_PRELOAD load the library into single programs: see docs/blackbox.md"

// surroundings has the properties of the machine and the process that decide whether a capture is
// possible.
type surroundings struct {
	release  string   // of the kernel, such as "6.12.9-1"
	btf      bool     // the kernel contains a description of itself
	missing  []string // capabilities that this process lacks
	lockdown string   // the kernel's lockdown: "none", "integrity", "confidentiality" or ""
}

// lookAround returns the properties of this machine and this process.
func lookAround() (a surroundings) {
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		a.release = unix.ByteSliceToString(name.Release[:])
	}
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	a.btf = !errors.Is(err, os.ErrNotExist)
	a.missing = missingRights()
	text, _ := os.ReadFile("/sys/kernel/security/lockdown")
	a.lockdown = chosenLockdown(string(text))
	return a
}

// chosenLockdown returns the word in brackets of a text such as "none [integrity] confidentiality".
func chosenLockdown(text string) string {
	_, rest, _ := strings.Cut(text, "[")
	chosen, _, _ := strings.Cut(rest, "]")
	return chosen
}

// isTooOld reports whether the kernel is older than all kernels that have the hooks.
func (a surroundings) isTooOld() bool {
	var major, minor int
	if _, err := fmt.Sscanf(a.release, "%d.%d", &major, &minor); err != nil {
		return false
	}
	return major < 6 || major == 6 && minor < 3
}

var number = regexp.MustCompile(`^[0-9]+\.[0-9]+`)

// tooOld says that another kernel is needed.
func (a surroundings) tooOld(lacks string) error {
	return fmt.Errorf("%w: the kernel%s: use Linux 6.3 or later (this is Linux %s), %s",
		ErrNotPossible, lacks, number.FindString(a.release), otherWay)
}

// describesItself returns an error if the kernel does not describe itself.
func (a surroundings) describesItself() error {
	switch {
	case a.btf:
		return nil
	case a.isTooOld():
		return a.tooOld(" is too old")
	}
	return fmt.Errorf("%w: the kernel does not describe itself: use one that is built with "+
		"CONFIG_DEBUG_INFO_BTF, as those of distributions since 2021 are, %s", ErrNotPossible,
		otherWay)
}

// hasHooks returns an error if the kernel lacks a hook without which nothing is captured.
func (a surroundings) hasHooks(has func(hook string) bool) error {
	for _, hook := range []string{hookSent, hookReceived, hookRenamed} {
		if !has(hook) {
			return a.tooOld(fmt.Sprintf(" has no tracepoint %q", hook))
		}
	}
	return nil
}

// whyRefused says why the kernel did not load the programs.
func (a surroundings) whyRefused(err error) error {
	switch {
	case len(a.missing) > 0:
		return fmt.Errorf("%w: this process lacks %s: start it as root, or give it these "+
			"capabilities, %s", ErrNotPossible, strings.Join(a.missing, " and "), otherWay)
	case errors.Is(err, unix.EPERM) && a.lockdown == "confidentiality":
		return fmt.Errorf("%w: load programs: %w: the kernel's lockdown forbids it: boot with "+
			"lockdown=integrity, %s", ErrNotPossible, err, otherWay)
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("%w: load programs: %w: the kernel was built without "+
			"CONFIG_BPF_SYSCALL: use another one, %s", ErrNotPossible, err, otherWay)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w: load programs: %w: this process has the rights, so something "+
			"else forbids bpf: if it runs in a container, let the container's seccomp profile "+
			"allow bpf, %s", ErrNotPossible, err, otherWay)
	}
	return fmt.Errorf("%w: load programs: %w", ErrNotPossible, err)
}

// missingRights names the capabilities that a capture needs and this process lacks.
func missingRights() (names []string) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return nil
	}
	has := func(n int) bool { return sets[n/32].Effective&(1<<(n%32)) != 0 }
	if has(unix.CAP_SYS_ADMIN) {
		return nil
	}
	if !has(unix.CAP_BPF) {
		names = append(names, "CAP_BPF")
	}
	if !has(unix.CAP_PERFMON) {
		names = append(names, "CAP_PERFMON")
	}
	return names
}
