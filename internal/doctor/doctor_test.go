package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/ntp"
)

// faultlessMachine returns a machine without any fault.
func faultlessMachine() Machine {
	return Machine{
		Root: fstest.MapFS{
			"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": {Data: []byte("performance\n")},
			"sys/power/state": {Data: []byte("\n")},
		},
		User:       User{1000, "ada"},
		Rings:      "/dev/shm/rings",
		CheckRings: func(string) error { return nil },
		Filesystem: func(string) (Filesystem,
			error) {
			return Filesystem{Memory: true, Bytes: 1 << 30, Free: 1 << 30}, nil
		},
		Interfaces: func() ([]net.Interface, error) {
			return []net.Interface{{Name: "eth0", Flags: net.FlagUp}, {Name: "down0"}}, nil
		},
		Stamps: func(string) (StampKinds, error) {
			return StampKinds{Transmit: true, Receive: true, PHC: -1}, nil
		},
		Discipline: func() (minrtt.Discipline, error) {
			return minrtt.Discipline{Tick_us: 10_000, Frequency_ppm16: -65536}, nil
		},
		ClockStatus: func() (unix.Timex, error) { return unix.Timex{Maxerror: 1500}, nil },
		Chrony: func() (ntp.Claim, error) {
			return ntp.Claim{Stratum: 3, RootDelay_ns: 2_000_001, RootDispersion_ns: 500_000,
				Source: netip.MustParseAddr("192.0.2.9")}, nil
		},
		Limit: func(int) (unix.Rlimit, error) { return unix.Rlimit{Cur: 1024, Max: 1 << 20}, nil },
	}
}

func TestExamine(t *testing.T) {
	none := errors.New("not permitted")
	for _, tc := range []struct {
		name    string
		change  func(m *Machine)
		finding string // "" if nothing is wrong
		verdict host.Verdict
		says    string
	}{
		{"nothing is wrong", func(*Machine) {}, "", host.Fit, ""},
		{"a ring directory of somebody else's",
			func(m *Machine) { m.CheckRings = func(string) error { return none } },
			"ring directory", host.Unfit, "not permitted"},
		{"a ring directory still to be made",
			func(m *Machine) { m.CheckRings = func(string) error { return fs.ErrNotExist } }, "",
			host.Fit, ""},
		{"rings on a disk", func(m *Machine) {
			m.Filesystem = func(string) (Filesystem,
				error) {
				return Filesystem{Bytes: 1 << 40, Free: 1 << 40}, nil
			}
		}, "shared memory", host.Warning, "not in memory"},
		{"a container's small one", func(m *Machine) {
			m.Filesystem = func(string) (Filesystem,
				error) {
				return Filesystem{true, 64 << 20, 60 << 20}, nil
			}
		}, "shared memory", host.Warning, "60 MiB of 64 MiB free"},
		{"no file system",
			func(m *Machine) {
				m.Filesystem = func(string) (Filesystem,
					error) {
					return Filesystem{}, none
				}
			}, "shared memory", host.Unknown, "not permitted"},
		{"an interface without stamps", func(m *Machine) {
			m.Stamps = func(string) (StampKinds, error) { return StampKinds{Receive: true}, nil }
		}, "kernel stamps", host.Warning, "eth0 (arriving packets only)"},
		{"an interface that does not say",
			func(m *Machine) {
				m.Stamps = func(string) (StampKinds, error) {
					return StampKinds{},
						none
				}
			}, "kernel stamps", host.Unknown, "eth0 (not permitted)"},
		{"no interface",
			func(m *Machine) { m.Interfaces = func() ([]net.Interface, error) { return nil, nil } },
			"kernel stamps", host.Unknown, "none is up"},
		{"no list of interfaces",
			func(m *Machine) {
				m.Interfaces = func() ([]net.Interface, error) {
					return nil,
						none
				}
			}, "kernel stamps", host.Unknown, "not permitted"},
		{"no adjtimex", func(m *Machine) {
			m.Discipline = func() (minrtt.Discipline, error) { return minrtt.Discipline{}, none }
		}, "realtime", host.Unknown, "not permitted"},
		{"a pulse", func(m *Machine) {
			m.Discipline = func() (minrtt.Discipline, error) {
				return minrtt.Discipline{Tick_us: 10_000, PulsePerSecond: true}, nil
			}
		}, "realtime", host.Warning, "pulse-per-second"},
		{"nobody steers", func(m *Machine) {
			m.ClockStatus = func() (unix.Timex, error) {
				return unix.Timex{Status: unix.STA_UNSYNC},
					nil
			}
		}, "realtime", host.Warning, "steered by -1.000 ppm; no daemon"},
		{"no chrony", func(m *Machine) {
			m.Chrony = func() (ntp.Claim, error) { return ntp.Claim{}, ntp.ErrNoDaemon }
		}, "chrony", host.Warning, "no chrony daemon answers"},
		{"a chrony without sources", func(m *Machine) {
			m.Chrony = func() (ntp.Claim, error) {
				return ntp.Claim{Leap: ntp.LeapUnsynchronised},
					nil
			}
		}, "chrony", host.Warning, "follows no source"},
		{"a laptop",
			func(m *Machine) {
				m.Root.(fstest.MapFS)["sys/power/state"].Data =
					[]byte("freeze mem disk\n")
			}, "sleep", host.Warning, "freeze, mem, disk"},
		{"few files", func(m *Machine) {
			m.Limit = func(int) (unix.Rlimit, error) {
				return unix.Rlimit{Cur: 256, Max: 1024},
					nil
			}
		}, "open files", host.Warning, "1024"},
		{"no limit known",
			func(m *Machine) {
				m.Limit = func(int) (unix.Rlimit, error) {
					return unix.Rlimit{},
						none
				}
			}, "open files", host.Unknown, "not permitted"},
		{"cores that are slowed down", func(m *Machine) {
			m.Root.(fstest.MapFS)["sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"] =
				&fstest.MapFile{Data: []byte("powersave\n")}
		}, "frequency scaling", host.Warning, "performance on 1, powersave on 1 cores"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := faultlessMachine()
			tc.change(&m)
			for _, f := range Examine(m) {
				want := host.Fit
				if f.Name == tc.finding {
					want = tc.verdict
					if !strings.Contains(f.Detail, tc.says) {
						t.Errorf("%s says %q, want %q in it", f.Name, f.Detail, tc.says)
					}
					if want != host.Unknown && f.Remedy == "" {
						t.Errorf("%s has no remedy", f.Name)
					}
				}
				if f.Verdict != want {
					t.Errorf("%s: %v: %s, want %v", f.Name, f.Verdict, f.Detail, want)
				}
			}
		})
	}
}

// If the directory of rings does not exist, the nearest existing directory above it is examined.
func TestSharedMemoryOfADirectoryToBe(t *testing.T) {
	m := faultlessMachine()
	m.Rings = "/dev/shm/not/there"
	var asked []string
	m.Filesystem = func(path string) (Filesystem, error) {
		if asked = append(asked, path); path != "/dev/shm" {
			return Filesystem{}, fmt.Errorf("statfs: %w", fs.ErrNotExist)
		}
		return Filesystem{true, 1 << 30, 1 << 30}, nil
	}
	if f := m.sharedMemory(); f.Verdict != host.Fit || !strings.Contains(f.Detail, "/dev/shm") ||
		len(asked) != 3 {
		t.Errorf("%+v after %q", f, asked)
	}
}

// Examine produces every finding on this machine, whatever the verdicts are.
func TestSystem(t *testing.T) {
	names := map[string]bool{}
	for _, f := range Examine(System()) {
		if f.Detail == "" {
			t.Errorf("%s says nothing", f.Name)
		}
		names[f.Name] = true
	}
	if len(names) != 10 {
		t.Errorf("findings %v, want ten names", names)
	}
}

func TestChronyClaims(t *testing.T) {
	const want = "claims to be within 1.501 ms of UTC, at stratum 3, following 192.0.2.9"
	if f := faultlessMachine().chrony(); f.Verdict != host.Fit || f.Detail != want {
		t.Errorf("%+v, want %q", f, want)
	}
}
