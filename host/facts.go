package host

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/asm"
)

// Facts is what a machine says about itself. Nothing in it is measured, and no bound depends on it.
// If a field could not be read, it has its zero value.
type Facts struct {
	Hostname string `json:"hostname"`
	// MachineID is a keyed hash of the machine's id, so that nobody can compute the id from it. It
	// identifies one installation.
	MachineID string `json:"machine_id"`
	Kernel    string `json:"kernel"`
	CPU       string `json:"cpu"`
	// Hypervisor is the hypervisor's name, or "yes" if only its presence is known.
	Hypervisor string `json:"hypervisor,omitempty"`
	// Container is docker, podman, kubernetes, lxc, systemd-nspawn or wsl.
	Container string `json:"container,omitempty"`

	Clocksource  string   `json:"clocksource"`
	Clocksources []string `json:"clocksources"` // the clocksources that the kernel offers
	Cores        Cores    `json:"cores"`
	// CPUQuota is the control group's limit in cores, for example "1.50".
	CPUQuota string `json:"cpu_quota,omitempty"`

	// KernelDoubtsCounter is true if the kernel lists flags of this CPU, but not both constant_tsc
	// and nonstop_tsc.
	KernelDoubtsCounter bool `json:"kernel_doubts_counter"`

	// HasVMGenID is true if the kernel announces restores of this virtual machine (ListenRestores).
	HasVMGenID    bool   `json:"has_vmgenid"`
	HasVMClock    bool   `json:"has_vmclock"`              // the hypervisor offers VMClock
	OpensVMClock  bool   `json:"opens_vmclock"`            // this process may read VMClock
	ClaimsFreq_hz uint64 `json:"claims_freq_hz,omitempty"` // claimed, not measured

	// SharedClock says which clock the node is said to share with others, and who says so. It is
	// empty if there is no such clock. ReadFacts does not set it.
	SharedClock string `json:"shared_clock,omitempty"`

	// HardwareStamps says which network interface stamps probes, and what the configuration says
	// about its stamps. It is empty if no interface stamps probes. ReadFacts does not set it.
	HardwareStamps string `json:"hardware_stamps,omitempty"`

	Features asm.Features `json:"-"`
}

// Cores lists the logical CPUs of a node by number.
type Cores struct {
	Possible []int `json:"possible"`
	Online   []int `json:"online"`
	Allowed  []int `json:"allowed"` // the cores that this process may use
	Sockets  int   `json:"sockets"`
	NUMA     int   `json:"numa_nodes"`
	Siblings bool  `json:"siblings"` // some logical CPUs share a physical core
}

const (
	clocksourceDir = "sys/devices/system/clocksource/clocksource0/"
	onlineFile     = "sys/devices/system/cpu/online"
)

// ReadFacts reads the facts from a root directory (os.DirFS("/") for this machine) and from what
// the CPU reports (asm.Read). Containers hide many of the files. The facts from hidden files keep
// their zero values.
func ReadFacts(root fs.FS, features asm.Features) Facts {
	text := func(name string) string {
		s, _ := readText(root, name)
		return s
	}
	cpuinfo := parseCPUInfo(text("proc/cpuinfo"))
	f := Facts{
		Hostname:      text("proc/sys/kernel/hostname"),
		MachineID:     hashMachineID(text("etc/machine-id")),
		Kernel:        text("proc/sys/kernel/osrelease"),
		CPU:           features.CPU,
		Clocksource:   text(clocksourceDir + "current_clocksource"),
		Clocksources:  strings.Fields(text(clocksourceDir + "available_clocksource")),
		Container:     container(root),
		CPUQuota:      cpuQuota(root),
		Features:      features,
		ClaimsFreq_hz: features.Frequency_hz,
	}
	if f.CPU == "" {
		f.CPU = cpuinfo.name
	}
	f.KernelDoubtsCounter = len(cpuinfo.flags) > 0 &&
		!(cpuinfo.flags["constant_tsc"] && cpuinfo.flags["nonstop_tsc"])
	f.Hypervisor = hypervisor(root, features, cpuinfo)
	f.Cores = readCores(root)
	f.HasVMGenID = hasDriver(root, "vmgenid")
	f.HasVMClock = exists(root, "dev/vmclock0") ||
		exists(root, "sys/bus/platform/devices/AMZNC10C:00")
	if file, err := root.Open("dev/vmclock0"); err == nil {
		file.Close()
		f.OpensVMClock = true
	}
	return f
}

func readText(root fs.FS, name string) (string, error) {
	b, err := fs.ReadFile(root, name)
	return strings.TrimSpace(strings.TrimRight(string(b), "\x00")), err
}

func exists(root fs.FS, name string) bool {
	_, err := fs.Stat(root, name)
	return err == nil
}

// hasDriver reports whether a driver is bound to a device.
func hasDriver(root fs.FS, driver string) bool {
	for _, bus := range []string{"platform", "acpi"} {
		entries, err := fs.ReadDir(root, path.Join("sys/bus", bus, "drivers", driver))
		if err != nil {
			continue
		}
		for _, e := range entries {
			switch e.Name() {
			case "bind", "unbind", "uevent", "module":
			default:
				return true
			}
		}
	}
	return false
}

// hashMachineID returns a keyed hash of the machine's id. According to machine-id(5), the id itself
// is confidential, but such a hash may be shown.
func hashMachineID(id string) string {
	if id == "" || id == "uninitialized" {
		return ""
	}
	h := hmac.New(sha256.New, []byte("cloudprofiler node"))
	h.Write([]byte(id))
	return hex.EncodeToString(h.Sum(nil)[:16])
}

type cpuInfo struct {
	name  string
	flags map[string]bool
	arm   bool
}

// parseCPUInfo reads the entry of the first processor in /proc/cpuinfo.
func parseCPUInfo(text string) cpuInfo {
	info := cpuInfo{flags: map[string]bool{}}
	implementer, part := "", ""
	for line := range strings.Lines(text) {
		key, value, found := strings.Cut(line, ":")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		if !found {
			if key == "" && (info.name != "" || part != "") {
				break
			}
			continue
		}
		switch key {
		case "model name":
			info.name = value
		case "flags":
			for _, flag := range strings.Fields(value) {
				info.flags[flag] = true
			}
		case "CPU implementer":
			implementer, info.arm = value, true
		case "CPU part":
			part = value
		}
	}
	if info.name == "" && info.arm {
		info.name = armName(implementer, part)
	}
	return info
}

// armCores contains names of Arm cores that are common in clouds and desktop computers. Linux
// reports only their numbers.
var armCores = map[string]string{
	"0x41/0xd03": "Arm Cortex-A53", "0x41/0xd07": "Arm Cortex-A57", "0x41/0xd08": "Arm Cortex-A72",
	"0x41/0xd0b": "Arm Cortex-A76",
	"0x41/0xd0c": "Arm Neoverse N1", "0x41/0xd40": "Arm Neoverse V1",
	"0x41/0xd49": "Arm Neoverse N2", "0x41/0xd4f": "Arm Neoverse V2",
	"0xc0/0xac3": "Ampere One",
}

func armName(implementer, part string) string {
	if name, ok := armCores[implementer+"/"+part]; ok {
		return name
	}
	return fmt.Sprintf("arm64 (implementer %s, part %s)", implementer, part)
}

func hypervisor(root fs.FS, features asm.Features, cpuinfo cpuInfo) string {
	signatures := map[string]string{
		"KVMKVMKVM": "KVM", "VMwareVMware": "VMware", "Microsoft Hv": "Hyper-V",
		"XenVMMXenVMM": "Xen",
		"TCGTCGTCGTCG": "QEMU (emulated)", "bhyve bhyve": "bhyve", "ACRNACRNACRN": "ACRN",
		"VBoxVBoxVBox": "VirtualBox",
	}
	if name, ok := signatures[features.Hypervisor]; ok {
		return name
	}
	if features.Hypervisor != "" {
		return features.Hypervisor
	}
	if kind, err := readText(root, "sys/hypervisor/type"); err == nil && kind != "" {
		return kind
	}
	vendor, _ := readText(root, "sys/class/dmi/id/sys_vendor")
	product, _ := readText(root, "sys/class/dmi/id/product_name")
	switch {
	case strings.HasPrefix(vendor, "QEMU"), strings.Contains(product, "KVM"):
		return "KVM"
	case strings.HasPrefix(vendor, "Amazon EC2") && !strings.Contains(product, ".metal"):
		return "KVM" // Nitro; Xen was recognised above
	case vendor == "Google", strings.Contains(product, "Google Compute Engine"):
		return "KVM"
	case strings.HasPrefix(vendor, "VMware"):
		return "VMware"
	case strings.HasPrefix(vendor, "Microsoft") && product == "Virtual Machine":
		return "Hyper-V"
	}
	if compatible, err := readText(root, "proc/device-tree/hypervisor/compatible"); err == nil {
		return strings.ReplaceAll(compatible, "\x00", " ")
	}
	if cpuinfo.flags["hypervisor"] {
		return "yes"
	}
	return ""
}

func container(root fs.FS) string {
	groups, _ := readText(root, "proc/self/cgroup")
	switch {
	case exists(root, "var/run/secrets/kubernetes.io") || strings.Contains(groups, "kubepods"):
		return "kubernetes"
	case exists(root, "run/.containerenv"):
		return "podman"
	case exists(root, ".dockerenv") || strings.Contains(groups, "/docker"):
		return "docker"
	case strings.Contains(groups, "/lxc"):
		return "lxc"
	}
	if kind, err := readText(root, "run/systemd/container"); err == nil {
		return kind
	}
	release, err := readText(root, "proc/sys/kernel/osrelease")
	if err == nil && strings.Contains(release, "WSL") {
		return "wsl"
	}
	return ""
}

// cpuQuota reads the CPU limit of the control group that this process sees as the root. In a
// container, that is the container's own group.
func cpuQuota(root fs.FS) string {
	quota, period := "", ""
	if v2, err := readText(root, "sys/fs/cgroup/cpu.max"); err == nil {
		quota, period, _ = strings.Cut(v2, " ")
	} else {
		quota, _ = readText(root, "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
		period, _ = readText(root, "sys/fs/cgroup/cpu/cpu.cfs_period_us")
	}
	q, err1 := strconv.ParseFloat(quota, 64) // "max" and -1 mean no limit
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return ""
	}
	return strconv.FormatFloat(q/p, 'f', 2, 64)
}

func readCores(root fs.FS) Cores {
	var c Cores
	list := func(name string) []int {
		text, err := readText(root, name)
		if err != nil {
			return nil
		}
		cores, _ := parseCores(text)
		return cores
	}
	c.Possible = list("sys/devices/system/cpu/possible")
	c.Online = list(onlineFile)
	c.NUMA = len(list("sys/devices/system/node/online"))
	status, _ := readText(root, "proc/thread-self/status")
	if status == "" {
		status, _ = readText(root, "proc/self/status")
	}
	for line := range strings.Lines(status) {
		if allowed, ok := strings.CutPrefix(line, "Cpus_allowed_list:"); ok {
			c.Allowed, _ = parseCores(strings.TrimSpace(allowed))
		}
	}
	sockets := map[string]bool{}
	for _, core := range c.Online {
		topology := fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/", core)
		if socket, err := readText(root, topology+"physical_package_id"); err == nil {
			sockets[socket] = true
		}
		if siblings := list(topology + "thread_siblings_list"); len(siblings) > 1 {
			c.Siblings = true
		}
	}
	c.Sockets = len(sockets)
	return c
}

// parseCores reads a list of cores in the kernel's format, such as 0-3,8,10-11.
func parseCores(text string) ([]int, error) {
	const most = 1 << 16
	var cores []int
	if text == "" {
		return nil, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		a, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("parse core list %q: %q is not a core: %w", text, first, err)
		}
		b := a
		if isRange {
			if b, err = strconv.ParseUint(last, 10, 16); err != nil {
				return nil, fmt.Errorf("parse core list %q: %q is not a core: %w", text, last, err)
			}
		}
		if len(cores) > most {
			return nil, fmt.Errorf("parse core list %q: more than %d cores", text, most)
		}
		for core := a; core <= b; core++ {
			cores = append(cores, int(core))
		}
	}
	slices.Sort(cores)
	return slices.Compact(cores), nil
}

// listCores writes a list of cores in the kernel's format.
func listCores(cores []int) string {
	var b strings.Builder
	for i := 0; i < len(cores); {
		j := i
		for j+1 < len(cores) && cores[j+1] == cores[j]+1 {
			j++
		}
		if i > 0 {
			b.WriteByte(',')
		}
		if i == j {
			fmt.Fprintf(&b, "%d", cores[i])
		} else {
			fmt.Fprintf(&b, "%d-%d", cores[i], cores[j])
		}
		i = j + 1
	}
	return b.String()
}

func (f Facts) findings() []Finding {
	out := []Finding{f.cpuFinding(), f.clocksourceFinding(), f.placeFinding()}
	if f.Container != "" {
		out = append(out, f.containerFinding())
	}
	return out
}

func (f Facts) cpuFinding() Finding {
	name := "counter"
	if err := f.Features.Check(); err != nil {
		return Finding{name, Unfit, err.Error(),
			"use another machine, or let the hypervisor pass the feature through"}
	}
	cpu := f.CPU
	if cpu == "" {
		cpu = "this CPU"
	}
	if f.KernelDoubtsCounter {
		return Finding{name, Warning,
			cpu + " says that its counter has one rate, " +
				"but the kernel does not list both constant_tsc and nonstop_tsc",
			"look for \"tsc\" in the kernel log; update the kernel or the hypervisor"}
	}
	return Finding{name, Fit, cpu + " counts at one rate in every power and frequency state", ""}
}

func (f Facts) clocksourceFinding() Finding {
	name := "clocksource"
	switch {
	case f.Clocksource == "":
		return Finding{name, Unknown, "the kernel's clocksource cannot be read",
			"show /sys to this process"}
	case f.Clocksource == "tsc" || f.Clocksource == "arch_sys_counter":
		return Finding{name, Fit,
			"the kernel itself keeps time with this counter (" + f.Clocksource + ")", ""}
	case slices.Contains(f.Clocksources, "tsc") ||
		slices.Contains(f.Clocksources, "arch_sys_counter"):
		return Finding{name, Fit,
			fmt.Sprintf("the kernel uses %s; it would accept the counter as well", f.Clocksource),
			""}
	}
	detail := fmt.Sprintf("the kernel uses %s and does not offer the counter (it offers: %s): "+
		"it may have found it unstable", f.Clocksource, strings.Join(f.Clocksources, ", "))
	return Finding{name, Warning, detail,
		"look for \"clocksource\" and \"unstable\" in the kernel log; " +
			"on virtual machines, ask for an invariant TSC"}
}

func (f Facts) placeFinding() Finding {
	name := "machine"
	cores := fmt.Sprintf("%d %s", len(f.Cores.Online), plural(uint64(len(f.Cores.Online)), "core"))
	if len(f.Cores.Online) == 0 {
		cores = "number of cores unknown"
	}
	if f.Cores.Sockets > 1 {
		cores += fmt.Sprintf(" on %d sockets", f.Cores.Sockets)
	}
	if f.Hypervisor == "" {
		return Finding{name, Fit, "no hypervisor shows itself; " + cores, ""}
	}
	detail := "virtual"
	if f.Hypervisor != "yes" {
		detail += " (" + f.Hypervisor + ")"
	}
	detail += ", " + cores
	if f.OpensVMClock {
		return Finding{name, Fit,
			detail + "; the hypervisor announces migrations and restores (VMClock)", ""}
	}
	remedy := "forbid live migration during a run, or use a dedicated host"
	if f.HasVMClock {
		remedy = "the hypervisor offers VMClock, which would announce it: use a kernel with " +
			"CONFIG_PTP_1588_CLOCK_VMCLOCK and make /dev/vmclock0 readable; else " + remedy
	}
	return Finding{name, Warning, detail + ": it can be migrated, snapshotted and restored", remedy}
}

func (f Facts) containerFinding() Finding {
	detail := "runs in a container (" + f.Container + ")"
	if f.CPUQuota != "" {
		detail += ", limited to " + f.CPUQuota +
			" cores: the program is stopped when it has used them up"
		return Finding{"container", Warning, detail,
			"give the measured program whole cores, or no limit"}
	}
	return Finding{"container", Fit, detail + "; the counter is the machine's", ""}
}
