package host

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

var update = flag.Bool("update", false, "write the golden files anew")

// readFixture reads a simulated machine's files from one text file. In the text file, a line "--
// path --" begins each simulated file. (The simulated files are not files of the repository,
// because paths in /sys contain colons, and file names in a Go module must not.)
func readFixture(t *testing.T, name string) fstest.MapFS {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	var file *fstest.MapFile
	for line := range bytes.Lines(text) {
		trimmed := strings.TrimSpace(string(line))
		if path, ok := strings.CutPrefix(trimmed, "-- "); ok && strings.HasSuffix(path, " --") {
			file = &fstest.MapFile{}
			files[strings.TrimSuffix(path, " --")] = file
			continue
		}
		if file != nil {
			file.Data = append(file.Data, line...)
		}
	}
	return files
}

var (
	invariant = asm.Features{
		CPU: "AMD EPYC", Hypervisor: "KVMKVMKVM", Ordered: true, Invariant: true,
	}
	intel = asm.Features{
		CPU: "Intel(R) Xeon(R) CPU E5-2690 0 @ 2.90GHz", Ordered: true,
		Invariant: true, Frequency_hz: 2_600_000_000,
	}
	arm = asm.Features{Ordered: true, Invariant: true, Frequency_hz: 2_600_000_000}
	xen = asm.Features{
		CPU:        "Intel(R) Xeon(R) CPU E5-2690 0 @ 2.90GHz",
		Hypervisor: "XenVMMXenVMM", Ordered: true, Invariant: true,
	}
)

func TestFactsOfKnownMachines(t *testing.T) {
	tests := map[string]struct {
		features asm.Features
		want     Facts
	}{
		"kvm_guest": {invariant, Facts{
			Hostname: "vm", Kernel: "6.18.44-fc-v657", CPU: "AMD EPYC", Hypervisor: "KVM",
			Clocksource: "tsc", Clocksources: []string{"tsc", "kvm-clock"},
			MachineID: "8332e55d53e7a0b5f6b34c65154b5605",
			Cores: Cores{Possible: []int{0, 1}, Online: []int{0, 1}, Allowed: []int{0, 1},
				Sockets: 1, NUMA: 1},
			HasVMGenID: true, HasVMClock: true,
		}},
		"intel_two_sockets": {intel, Facts{
			Hostname: "rack7-12", Kernel: "5.15.0-105-generic", CPU: intel.CPU, Clocksource: "tsc",
			Clocksources: []string{"tsc", "hpet", "acpi_pm"},
			MachineID:    "fed37a0da5c95114cd67d92a88757613",
			Cores: Cores{Possible: []int{0, 1, 2, 3, 4, 5, 6, 7},
				Online: []int{0, 1, 2, 3, 4, 5, 6, 7}, Allowed: []int{0, 1, 2, 3, 4, 5, 6, 7},
				Sockets: 2, NUMA: 2, Siblings: true},
			ClaimsFreq_hz: 2_600_000_000,
		}},
		"arm64_cloud": {arm, Facts{
			Hostname: "ip-10-0-3-17", Kernel: "6.1.0-21-cloud-arm64", CPU: "Arm Neoverse N1",
			Hypervisor: "KVM", Clocksource: "arch_sys_counter",
			MachineID:    "f7267f6339b9bb99e65d0ea0404b6bbd",
			Clocksources: []string{"arch_sys_counter"},
			Cores: Cores{Possible: []int{0, 1, 2, 3}, Online: []int{0, 1, 2, 3},
				Allowed: []int{0, 1, 2, 3}, Sockets: 1, NUMA: 1},
			ClaimsFreq_hz: 2_600_000_000,
		}},
		"container_on_xen": {xen, Facts{
			Hostname: "worker-6c9f7d5b4-x2x8q", Kernel: "5.10.205-195.807.amzn2.x86_64",
			CPU: xen.CPU, Hypervisor: "Xen", Container: "kubernetes",
			Clocksource: "xen", Clocksources: []string{"xen", "hpet", "acpi_pm"}, CPUQuota: "1.50",
			Cores: Cores{Possible: []int{0, 1, 2, 3, 4, 5, 6, 7}, Online: []int{0, 1},
				Allowed: []int{0}, NUMA: 1},
			KernelDoubtsCounter: true,
		}},
		"nothing readable": {asm.Features{}, Facts{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			root := fstest.MapFS{}
			if !strings.Contains(name, " ") {
				root = readFixture(t, name)
			}
			test.want.Features = test.features
			got := ReadFacts(root, test.features)
			if len(got.Clocksources) == 0 {
				got.Clocksources = nil
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("facts =\n%+v, want\n%+v", got, test.want)
			}
			raw, _ := readText(root, "etc/machine-id")
			if raw != "" && strings.Contains(got.MachineID, raw[:8]) {
				t.Errorf("machine id %q shows the raw one", got.MachineID)
			}
		})
	}
}

func TestPlacesByTheirHints(t *testing.T) {
	files := func(pairs ...string) fstest.MapFS {
		m := fstest.MapFS{}
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = &fstest.MapFile{Data: []byte(pairs[i+1])}
		}
		return m
	}
	for _, test := range []struct {
		root fstest.MapFS
		want string
	}{
		{files(".dockerenv", ""), "docker"},
		{files("proc/self/cgroup", "1:name=systemd:/docker/4f5e\n"), "docker"},
		{files("run/.containerenv", ""), "podman"},
		{files("proc/self/cgroup", "1:cpu:/lxc/web\n"), "lxc"},
		{files("run/systemd/container", "systemd-nspawn\n"), "systemd-nspawn"},
		{files("proc/sys/kernel/osrelease", "5.15.90.1-microsoft-standard-WSL2"), "wsl"},
		{files("proc/self/cgroup", "0::/user.slice"), ""},
	} {
		if got := container(test.root); got != test.want {
			t.Errorf("container of %v = %q, want %q",
				reflect.ValueOf(test.root).MapKeys(), got, test.want)
		}
	}
	const vendor, product = "sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name"
	for _, test := range []struct {
		root fstest.MapFS
		want string
	}{
		{files(vendor, "Google", product, "Google Compute Engine"), "KVM"},
		{files(vendor, "Amazon EC2", product, "c6g.metal"), ""},
		{files(vendor, "Amazon EC2", product, "c6g.large"), "KVM"},
		{files(vendor, "Microsoft Corporation", product, "Virtual Machine"), "Hyper-V"},
		{files(vendor, "Microsoft Corporation", product, "Surface Laptop"), ""},
		{files(vendor, "VMware, Inc."), "VMware"},
		{files(vendor, "QEMU", product, "KVM Virtual Machine"), "KVM"},
		{files("proc/device-tree/hypervisor/compatible", "linux,kvm\x00"), "linux,kvm"},
		{files("sys/hypervisor/type", "xen\n"), "xen"},
	} {
		if got := hypervisor(test.root, asm.Features{}, cpuInfo{}); got != test.want {
			t.Errorf("hypervisor of %v = %q, want %q", test.root[vendor], got, test.want)
		}
	}
	if got := hypervisor(files(), asm.Features{Hypervisor: "Unheard Of"},
		cpuInfo{}); got != "Unheard Of" {
		t.Errorf("hypervisor = %q, want the signature", got)
	}
	if got := hypervisor(files(), asm.Features{},
		cpuInfo{flags: map[string]bool{"hypervisor": true}}); got != "yes" {
		t.Errorf("hypervisor = %q, want yes", got)
	}
	if got := cpuQuota(files("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1",
		"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")); got != "" {
		t.Errorf("no quota = %q", got)
	}
	if got := cpuQuota(files("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000",
		"sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000")); got != "0.50" {
		t.Errorf("quota = %q, want 0.50", got)
	}
	if got := cpuQuota(files("sys/fs/cgroup/cpu.max", "max 100000")); got != "" {
		t.Errorf("no quota = %q", got)
	}
}

func TestCoreLists(t *testing.T) {
	for text, want := range map[string][]int{"": nil, "0": {0},
		"0-3,8,10-11": {0, 1, 2, 3, 8, 10, 11}, "5,5,4": {4, 5}} {
		got, err := parseCores(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("parseCores(%q) = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "1-", "-1", "1,,2", "0-99999", "1-2-3",
		"0-65535,0-65535,0-65535"} {
		if got, err := parseCores(text); err == nil {
			t.Errorf("parseCores(%q) = %d cores, want an error", text, len(got))
		}
	}
	if got := listCores([]int{0, 1, 2, 5, 7, 8}); got != "0-2,5,7-8" {
		t.Errorf("listCores = %q", got)
	}
}

// TestReports compares the reports about the fixtures with golden files. The counter and the clocks
// are simulated.
func TestReports(t *testing.T) {
	tests := map[string]struct {
		features asm.Features
		change   func(*Options, *node)
		want     Verdict
	}{
		"kvm_guest":         {invariant, nil, Warning},
		"intel_two_sockets": {intel, nil, Fit},
		"arm64_cloud":       {arm, nil, Warning},
		"container_on_xen":  {xen, nil, Warning},
		"no_invariant_tsc":  {asm.Features{CPU: "AMD EPYC", Ordered: true}, nil, Unfit},
		"counter_jumps": {invariant, func(o *Options, n *node) {
			o.Wait = func(d time.Duration) { n.wait(d); n.offset -= 1 << 39 }
		}, Unfit},
		"counter_still": {invariant, func(o *Options, n *node) {
			still := func() uint64 { n.now_ns += 20; return 4 }
			o.Clocks.EdgeOpen, o.Clocks.EdgeClose = still, still
		}, Unfit},
		"guest_with_vmclock": {invariant, func(o *Options, n *node) {
			n.files["dev/vmclock0"] = &fstest.MapFile{Data: vmclockPage(1, 1)}
		}, Fit},
		"bare_metal_on_hpet": {intel, func(o *Options, n *node) {
			n.set(clocksourceDir+"current_clocksource", "hpet")
			delete(n.files, "sys/devices/system/cpu/online")
			o.Slack.Cores = []int{0, 1, 2, 3, 4, 5, 6, 7}
		}, Warning},
		"nothing_readable": {intel, func(o *Options, n *node) {
			o.Root, o.Slack.Cores = fstest.MapFS{}, []int{0, 1}
		}, Unknown},
		"hyperv_guest": {invariant, func(o *Options, n *node) {
			n.set(clocksourceDir+"current_clocksource", "hyperv_clocksource_tsc_page")
		}, Warning},
		"one_core_by_affinity": {invariant, func(o *Options, n *node) {
			n.set("proc/thread-self/status", "Cpus_allowed_list:\t0\n")
			o.OnCore = func(core int, f func()) error { f(); return nil }
		}, Warning},
		"unknown_clocksource": {invariant, func(o *Options, n *node) {
			n.set(clocksourceDir+"current_clocksource", "pit")
		}, Warning},
		"kernel_4.18": {invariant, func(o *Options, n *node) {
			n.set("proc/sys/kernel/osrelease", "4.18.0-553.el8_10.x86_64")
		}, Warning},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			n := newNode()
			base := name
			if _, err := os.Stat(filepath.Join("testdata", name+".txtar")); err != nil {
				base = "kvm_guest"
				if strings.HasPrefix(name, "bare") {
					base = "intel_two_sockets"
				}
			}
			n.files = readFixture(t, base)
			o := Options{Root: n.files, Features: test.features, Clocks: n.clocks(), Wait: n.wait}
			// As on a real machine, no thread can be pinned to a core that the process may not use.
			allowed := ReadFacts(n.files, test.features).Cores.Allowed
			o.OnCore = func(core int, f func()) error {
				if !slices.Contains(allowed, core) {
					return fmt.Errorf("pin a thread to core %d: %w", core, syscall.EINVAL)
				}
				f()
				return nil
			}
			now := time.Unix(0, 0)
			o.Slack.Now = func() time.Time { return now }
			o.Slack.Exchange = func(
				a, b, rounds int, patience time.Duration,
			) (forth, back Handover, err error) {
				now = now.Add(time.Millisecond)
				return Handover{a, b, 1000, 1000 + uint64(90+10*b)},
					Handover{b, a, 1000, 1000 + uint64(80+10*a)}, nil
			}
			if test.change != nil {
				test.change(&o, n)
			}
			r := Examine(o)
			var got bytes.Buffer
			if _, err := r.WriteTo(&got); err != nil {
				t.Fatal(err)
			}
			if r.Verdict() != test.want {
				t.Errorf("verdict = %v, want %v\n%s", r.Verdict(), test.want, got.Bytes())
			}
			for _, f := range r.Findings {
				if f.Verdict != Fit && f.Remedy == "" {
					t.Errorf("%+v has no remedy", f)
				}
			}
			for line := range strings.Lines(got.String()) {
				if len(strings.TrimRight(line, "\n")) > 100 && strings.Count(line, " ") > 26 {
					t.Errorf("line of %d columns: %q", len(line), line)
				}
			}
			golden := filepath.Join("testdata", name+".report.golden")
			if *update {
				if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || !bytes.Equal(got.Bytes(), want) {
				t.Errorf("report (%v; -update writes it):\n%s\nwant:\n%s", err, got.Bytes(), want)
			}
			text, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			var back Report
			if err := json.Unmarshal(text, &back); err != nil ||
				!reflect.DeepEqual(back.Findings, r.Findings) {
				t.Errorf("report through JSON: %v", err)
			}
		})
	}
}

func TestAClaimThatIsWrongIsAWarning(t *testing.T) {
	f := Frequency{2_596_117_000_000, 2_596_127_000_000, time.Second, "CLOCK_MONOTONIC_RAW"}
	for claim, want := range map[uint64]Verdict{0: Fit, 2_596_000_000: Fit, 2_596_122_000: Fit,
		2_590_000_000: Warning, 2_600_000_000: Warning} {
		if got := frequencyFinding(&f, Facts{ClaimsFreq_hz: claim}); got.Verdict != want {
			t.Errorf("claim of %d Hz = %+v, want %v", claim, got, want)
		}
	}
	if got := frequencyFinding(nil, Facts{}); got.Verdict != Unknown {
		t.Errorf("no frequency = %+v, want unknown", got)
	}
}

func TestVerdictsAsText(t *testing.T) {
	for v := Fit; v <= Unfit; v++ {
		text, _ := v.MarshalText()
		var back Verdict
		if err := back.UnmarshalText(text); err != nil || back != v {
			t.Errorf("%v became %v, %v", v, back, err)
		}
	}
	var v Verdict
	if err := v.UnmarshalText([]byte("good")); err == nil {
		t.Error("a word that is no verdict was accepted")
	}
	if got := Verdict(9).String(); got != "verdict(9)" {
		t.Errorf("Verdict(9) = %q", got)
	}
}
