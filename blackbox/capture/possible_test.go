package capture

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// Where a capture is not possible, the error says why, and what to do there.
func TestWhyNotPossible(t *testing.T) {
	every := func(string) bool { return true }
	without := func(lacks string) func(string) bool {
		return func(hook string) bool { return hook != lacks }
	}
	denied := fmt.Errorf("program sock_send_length: %w", unix.EPERM)
	fit := surroundings{release: "6.18.44-x", btf: true, lockdown: "integrity"}
	for name, c := range map[string]struct {
		change func(*surroundings)
		has    func(string) bool
		load   error
		want   []string // parts of the error; nil: there is none
	}{
		"everything is there": {func(*surroundings) {}, every, nil, nil},
		"Linux 4.18 without BTF": {func(a *surroundings) {
			a.release, a.btf = "4.18.0-553.el8", false
		}, every, nil, []string{"too old", "Linux 6.3", "(this is Linux 4.18)", "LD_PRELOAD"}},
		"Linux 4.18 with BTF": {func(a *surroundings) { a.release = "4.18.0-553.el8" },
			without(hookSent), nil, []string{"no tracepoint \"sock_send_length\"", "Linux 6.3",
				"(this is Linux 4.18)", "LD_PRELOAD"}},
		"new, without BTF": {func(a *surroundings) { a.btf = false }, every, nil,
			[]string{"CONFIG_DEBUG_INFO_BTF", "LD_PRELOAD"}},
		"unknown, without BTF": {func(a *surroundings) { a.btf, a.release = false, "" }, every, nil,
			[]string{"CONFIG_DEBUG_INFO_BTF", "LD_PRELOAD"}},
		"no rights": {func(a *surroundings) { a.missing = []string{"CAP_BPF", "CAP_PERFMON"} },
			every, denied, []string{"lacks CAP_BPF and CAP_PERFMON", "as root", "LD_PRELOAD"}},
		"lockdown": {func(a *surroundings) { a.lockdown = "confidentiality" }, every, denied,
			[]string{"lockdown forbids", "lockdown=integrity", "LD_PRELOAD"}},
		"lockdown and no rights": {func(a *surroundings) {
			a.lockdown, a.missing = "confidentiality", []string{"CAP_BPF"}
		}, every, denied, []string{"lacks CAP_BPF: start"}},
		"seccomp": {func(*surroundings) {}, every, denied, []string{"seccomp", "LD_PRELOAD"}},
		"without bpf": {func(*surroundings) {}, every, unix.ENOSYS,
			[]string{"CONFIG_BPF_SYSCALL"}},
		"another error": {func(*surroundings) {}, every, unix.ENOMEM, []string{"cannot allocate"}},
	} {
		a := fit
		c.change(&a)
		err := a.describesItself()
		if err == nil {
			err = a.hasHooks(c.has)
		}
		if err == nil && c.load != nil {
			err = a.whyRefused(c.load)
		}
		if (err != nil) != (c.want != nil) || err != nil && !errors.Is(err, ErrNotPossible) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q lacks %q", name, err, part)
			}
		}
	}
}

func TestChosenLockdown(t *testing.T) {
	for text, want := range map[string]string{
		"none [integrity] confidentiality\n": "integrity", "[none] integrity": "none", "": "",
	} {
		if got := chosenLockdown(text); got != want {
			t.Errorf("%q of %q", got, text)
		}
	}
}

// lookAround finds at least the release of this machine's kernel.
func TestLookAround(t *testing.T) {
	if a := lookAround(); number.FindString(a.release) == "" {
		t.Errorf("%+v", a)
	}
}
