package minrtt

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file asks the kernel for stamps and finds them in the control data of recvmsg. A receive
// stamp arrives with its packet. A transmit stamp arrives through the socket's error queue, with a
// copy of the packet and of the headers before it. This copy identifies the packet to which the
// stamp belongs.

func (u *UDP) askForStamps(hardware int) {
	const report = unix.SOF_TIMESTAMPING_SOFTWARE
	ask := func(flags int) bool {
		return unix.SetsockoptInt(u.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, report|flags) == nil
	}
	const tx, rx = unix.SOF_TIMESTAMPING_TX_SOFTWARE, unix.SOF_TIMESTAMPING_RX_SOFTWARE
	// Without OPT_TX_SWHW, a packet that the hardware stamps gets no stamp of the kernel. OPT_CMSG
	// makes the kernel say by which interface a packet left. If a kernel refuses any of these
	// options, it is asked only for its own stamps.
	const both = unix.SOF_TIMESTAMPING_TX_HARDWARE | unix.SOF_TIMESTAMPING_RX_HARDWARE |
		unix.SOF_TIMESTAMPING_RAW_HARDWARE | unix.SOF_TIMESTAMPING_OPT_TX_SWHW |
		unix.SOF_TIMESTAMPING_OPT_CMSG
	switch {
	case hardware > 0 && u.askForInterface() && ask(tx|rx|both):
		u.transmit, u.receives, u.hardware = Kernel, Kernel, hardware
	case ask(tx | rx):
		u.transmit, u.receives = Kernel, Kernel
	case ask(rx):
		u.transmit, u.receives = Unsupported, Kernel
	case ask(tx):
		u.transmit, u.receives = Kernel, Unsupported
	default:
		u.transmit, u.receives = Unsupported, Unsupported
	}
	if u.transmit == Kernel {
		u.queued = make([]byte, longestSize+256)
	}
}

// askForInterface makes the kernel say by which interface a packet arrived or left.
func (u *UDP) askForInterface() bool {
	level, option := unix.IPPROTO_IP, unix.IP_PKTINFO
	if u.ipv6 {
		level, option = unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
	}
	return unix.SetsockoptInt(u.fd, level, option, 1) == nil
}

// Sources does what Transport.Sources does.
func (u *UDP) Sources() (transmit, receive Source) { return u.transmit, u.receives }

// SentStamps does what Transport.SentStamps does.
func (u *UDP) SentStamps(found func(packet []byte, at Stamps)) {
	if u.transmit != Kernel {
		return
	}
	u.use.Lock()
	defer u.use.Unlock()
	for !u.closed.Load() {
		u.errors.pointHeader(u.queued)
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(u.fd),
			uintptr(unsafe.Pointer(&u.errors.header)),
			unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return // EAGAIN: the queue is empty; after other errors there is no stamp either
		}
		if at := u.errors.findStamps(u.hardware); at != (Stamps{}) {
			found(u.queued[:n], at)
		}
	}
}

// findStamps returns the stamps in the control data. Hardware stamps count only if the kernel says
// that the packet passed the given interface, because each interface may have a clock of its own.
func (m *messageMemory) findStamps(hardware int) (at Stamps) {
	passed := 0
	control := m.control[:min(int(m.header.Controllen), len(m.control))]
	for len(control) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
		length := int(h.Len)
		if length < unix.SizeofCmsghdr || length > len(control) {
			break
		}
		data := control[unix.SizeofCmsghdr:length]
		switch {
		// The data are three stamps, each of two 64-bit words: seconds and nanoseconds. The first
		// is the software stamp, the last the hardware stamp.
		case h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPING && len(data) >= 16:
			at.RealtimeNS = timespec(data)
			if len(data) >= 48 {
				at.HardwareNS = timespec(data[32:])
			}
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= 4:
			passed = int(binary.NativeEndian.Uint32(data))
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= 20:
			passed = int(binary.NativeEndian.Uint32(data[16:])) // after the address
		}
		control = control[min(unix.CmsgSpace(length-unix.SizeofCmsghdr), len(control)):]
	}
	if hardware == 0 || passed != hardware {
		at.HardwareNS = 0
	}
	return at
}

func timespec(b []byte) int64 {
	return int64(binary.NativeEndian.Uint64(b))*1_000_000_000 +
		int64(binary.NativeEndian.Uint64(b[8:]))
}
