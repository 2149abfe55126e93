package doctor

import (
	"context"
	"io/fs"
	"net"
	"os"
	"os/user"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/cloudprofiler/cloudprofiler/host"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/ntp"
	"github.com/cloudprofiler/cloudprofiler/ring"
)

// Machine contains what doctor examines.
type Machine struct {
	Root fs.FS // root of the file system

	User        User   // the user who runs doctor
	Rings       string // the directory of the node's rings
	CheckRings  func(dir string) error
	Filesystem  func(path string) (Filesystem, error)
	Interfaces  func() ([]net.Interface, error)
	Stamps      func(interfaceName string) (StampKinds, error)
	Discipline  func() (minrtt.Discipline, error)
	ClockStatus func() (unix.Timex, error)
	Chrony      func() (ntp.Claim, error)
	Limit       func(resource int) (unix.Rlimit, error)
}

// User is a user of the machine.
type User struct {
	ID   int
	Name string
}

// Filesystem describes the file system of a directory.
type Filesystem struct {
	Memory      bool // the file system is in memory
	Bytes, Free uint64
}

// StampKinds says which packets of an interface the kernel can stamp, and which packets the
// interface's own clock can stamp.
type StampKinds struct {
	Transmit, Receive                 bool
	HardwareTransmit, HardwareReceive bool
	PHC                               int  // the number of that clock's PTP device; negative: none
	NotTold                           bool // the interface could stamp, but was not told to
}

// System returns the machine on which the program runs.
func System() Machine {
	return Machine{
		Root:       os.DirFS("/"),
		User:       thisUser(),
		Rings:      ring.DefaultDirectory(),
		CheckRings: ring.CheckDirectory,
		Filesystem: filesystem,
		Interfaces: net.Interfaces,
		Stamps:     stampKinds,
		Discipline: minrtt.ReadDiscipline,
		ClockStatus: func() (t unix.Timex, err error) {
			_, err = unix.Adjtimex(&t)
			return t, os.NewSyscallError("adjtimex", err)
		},
		Chrony: func() (ntp.Claim, error) {
			return ntp.Ask(context.Background(),
				ntp.DefaultAddress)
		},
		Limit: func(resource int) (l unix.Rlimit, err error) {
			err = unix.Getrlimit(resource, &l)
			return l, os.NewSyscallError("getrlimit", err)
		},
	}
}

// Examine returns the findings about a machine.
func Examine(m Machine) []host.Finding {
	findings := []host.Finding{m.ringDirectory(), m.sharedMemory(), m.Logout()}
	findings = append(findings, m.stamps()...)
	return append(findings, m.realtime(), m.furtherClocks(), m.chrony(), m.sleep(), m.files(),
		m.processors())
}

func thisUser() User {
	u := User{ID: os.Geteuid(), Name: strconv.Itoa(os.Geteuid())}
	if found, err := user.LookupId(u.Name); err == nil {
		u.Name = found.Username
	}
	return u
}

func filesystem(path string) (Filesystem, error) {
	memory, err := ring.InSharedMemory(path)
	if err != nil {
		return Filesystem{}, err
	}
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Filesystem{}, os.NewSyscallError("statfs", err)
	}
	unit := uint64(st.Bsize)
	return Filesystem{Memory: memory, Bytes: st.Blocks * unit, Free: st.Bavail * unit}, nil
}

func stampKinds(name string) (StampKinds, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return StampKinds{}, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolTsInfo(fd, name)
	if err != nil {
		return StampKinds{}, os.NewSyscallError("ethtool", err)
	}
	const software = unix.SOF_TIMESTAMPING_SOFTWARE
	can := func(flag uint32) bool {
		return info.So_timestamping&software != 0 && info.So_timestamping&flag != 0
	}
	hardware := func(flag uint32) bool {
		return info.So_timestamping&unix.SOF_TIMESTAMPING_RAW_HARDWARE != 0 &&
			info.So_timestamping&flag != 0
	}
	// Some drivers do not say which packets the interface has been told to stamp.
	told, err := unix.IoctlGetHwTstamp(fd, name)
	return StampKinds{
		NotTold: err == nil && (told.Tx_type != unix.HWTSTAMP_TX_ON ||
			told.Rx_filter != unix.HWTSTAMP_FILTER_ALL),
		Transmit:         can(unix.SOF_TIMESTAMPING_TX_SOFTWARE),
		Receive:          can(unix.SOF_TIMESTAMPING_RX_SOFTWARE),
		HardwareTransmit: hardware(unix.SOF_TIMESTAMPING_TX_HARDWARE),
		HardwareReceive:  hardware(unix.SOF_TIMESTAMPING_RX_HARDWARE),
		PHC:              int(info.Phc_index),
	}, nil
}
