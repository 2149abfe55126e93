package host

import (
	"strings"
	"testing"
	"testing/fstest"
)

// The step of the kernel's clocks depends on the clocksource. It includes the error of rounding
// down to a nanosecond.
func TestClockStep(t *testing.T) {
	for name, want := range map[string]int64{
		"tsc": 1, "arch_sys_counter": 1, "kvm-clock": 2, "xen": 2,
		"hyperv_clocksource_tsc_page": 101, "hyperv_clocksource_msr": 101, "hpet": 101,
		"acpi_pm": 281,
	} {
		if got, known := ClockStep_ns(name); got != want || !known {
			t.Errorf("%s: %d ns, known %v; want %d", name, got, known, want)
		}
	}
	for _, name := range []string{"", "jiffies", "refined-jiffies", "pit", "tsc\n"} {
		if got, known := ClockStep_ns(name); got < 10_000_000 || known || FromCounter(name) {
			t.Errorf("%q: %d ns, known %v; want the tick, and not the counter itself",
				name, got, known)
		}
	}
	for name, want := range map[string]bool{"tsc": true, "kvm-clock": true, "xen": true,
		"hpet": false, "acpi_pm": false} {
		if got := FromCounter(name); got != want {
			t.Errorf("%s is the counter itself: %v", name, got)
		}
	}
}

func TestStampStep(t *testing.T) {
	machine := func(release, online, clocksource string) fstest.MapFS {
		files := fstest.MapFS{}
		for name, text := range map[string]string{
			"proc/sys/kernel/osrelease": release, onlineFile: online,
			clocksourceDir + "current_clocksource": clocksource,
		} {
			if text != "" {
				files[name] = &fstest.MapFile{Data: []byte(text + "\n")}
			}
		}
		return files
	}
	for _, tc := range []struct {
		name   string
		root   fstest.MapFS
		proven []int
		want   uint32
		why    string
	}{
		{"all is known", machine("6.1.0-21-cloud-arm64", "0-3", "arch_sys_counter"),
			[]int{0, 1, 2, 3}, 1, ""},
		{"cores that are offline by now", machine("4.19.0", "0", "tsc"), []int{0, 1}, 1, ""},
		{"Hyper-V", machine("6.8.0-1021-azure", "0-1", "hyperv_clocksource_tsc_page"), []int{0, 1},
			101, ""},
		{"one of two cores", machine("6.8.0", "0-1", "tsc"), []int{0}, 0, "1"},
		{"a core was brought online", machine("6.8.0", "0-4,7", "tsc"), []int{0, 1, 2, 3}, 0,
			"4,7"},
		{"no core is proven", machine("6.8.0", "0", "tsc"), nil, 0, "0"},
		{"unknown clocksource", machine("6.8.0", "0", "jiffies"), []int{0}, 0, `"jiffies"`},
		{"no clocksource", machine("6.8.0", "0", ""), []int{0}, 0, "clocksource"},
		{"no list of cores", machine("6.8.0", "", "tsc"), []int{0}, 0, "online"},
		{"a list that is none", machine("6.8.0", "zero", "tsc"), []int{0}, 0, "zero"},
		{"Linux 4.18", machine("4.18.0-553.el8_10.x86_64", "0", "tsc"), []int{0}, 0, "4.18"},
		{"Linux 3.10", machine("3.10.0-1160.el7.x86_64", "0", "tsc"), []int{0}, 0, "3.10"},
		{"Linux of no version", machine("", "0", "tsc"), []int{0}, 0, "version"},
	} {
		got, err := StampStep(tc.root, tc.proven)()
		refused := err != nil && tc.why != "" && strings.Contains(err.Error(), tc.why)
		if got != tc.want || !refused && (err != nil || tc.why != "") {
			t.Errorf("%s: %d ns, %v; want %d, %q", tc.name, got, err, tc.want, tc.why)
		}
	}
}

// In an LXC container, lxcfs may list only the container's cores as online. Kernel stamps then
// prove nothing.
func TestStampsWhereCoresAreHidden(t *testing.T) {
	root := fstest.MapFS{
		"proc/sys/kernel/osrelease":            {Data: []byte("6.8.0\n")},
		onlineFile:                             {Data: []byte("0\n")},
		clocksourceDir + "current_clocksource": {Data: []byte("tsc\n")},
		"proc/self/mountinfo": {
			Data: []byte("25 30 0:23 / /sys rw,nosuid shared:7 - sysfs sysfs rw\n")},
	}
	if got, err := StampStep(root, []int{0})(); got != 1 || err != nil {
		t.Errorf("%d ns, %v", got, err)
	}
	for _, over := range []string{"/sys/devices/system/cpu", "/sys/devices/system/cpu/online"} {
		line := "560 542 0:49 /sys/devices/system/cpu " + over +
			" rw,nosuid - fuse.lxcfs lxcfs rw\n"
		root["proc/self/mountinfo"].Data = []byte(line)
		got, err := StampStep(root, []int{0})()
		if err == nil || !strings.Contains(err.Error(), "mounted over") {
			t.Errorf("with lxcfs over %s: %d ns, %v", over, got, err)
		}
	}
}

// The function that StampStep returns notices when the clocksource or the online cores change while
// a program runs.
func TestStampStepLooksAgain(t *testing.T) {
	root := fstest.MapFS{
		"proc/sys/kernel/osrelease":            {Data: []byte("6.8.0\n")},
		onlineFile:                             {Data: []byte("0-1\n")},
		clocksourceDir + "current_clocksource": {Data: []byte("tsc\n")},
	}
	step := StampStep(root, []int{0, 1})
	if got, err := step(); got != 1 || err != nil {
		t.Fatalf("%d ns, %v", got, err)
	}
	root[clocksourceDir+"current_clocksource"].Data = []byte("hpet\n")
	if got, err := step(); got != 101 || err != nil {
		t.Errorf("after another clocksource was chosen: %d ns, %v", got, err)
	}
	root[onlineFile].Data = []byte("0-2\n")
	if got, err := step(); err == nil {
		t.Errorf("after core 2 was brought online: %d ns", got)
	}
}
