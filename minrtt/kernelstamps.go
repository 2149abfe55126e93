package minrtt

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file asks the kernel for software stamps and finds them in the control data of recvmsg. A
// receive stamp arrives with its packet. A transmit stamp arrives through the socket's error queue,
// with a copy of the packet and of the headers before it. This copy identifies the packet to which
// the stamp belongs.

func (u *UDP) askForStamps() {
	const report = unix.SOF_TIMESTAMPING_SOFTWARE
	ask := func(flags int) bool {
		return unix.SetsockoptInt(u.fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPING, report|flags) == nil
	}
	const tx, rx = unix.SOF_TIMESTAMPING_TX_SOFTWARE, unix.SOF_TIMESTAMPING_RX_SOFTWARE
	switch {
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

// Sources does what Transport.Sources does.
func (u *UDP) Sources() (transmit, receive Source) { return u.transmit, u.receives }

// SentStamps does what Transport.SentStamps does.
func (u *UDP) SentStamps(found func(packet []byte, realtime_ns int64)) {
	if u.transmit != Kernel {
		return
	}
	u.use.Lock()
	defer u.use.Unlock()
	for !u.closed.Load() {
		u.errors.arm(u.queued)
		n, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(u.fd),
			uintptr(unsafe.Pointer(&u.errors.header)),
			unix.MSG_ERRQUEUE|unix.MSG_DONTWAIT)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return // EAGAIN: the queue is empty; after other errors there is no stamp either
		}
		if ns := u.errors.kernelStamp(); ns != 0 {
			found(u.queued[:n], ns)
		}
	}
}

// kernelStamp returns the kernel's software stamp in ns since 1970, or 0 if there is none.
func (m *message) kernelStamp() int64 {
	control := m.control[:min(int(m.header.Controllen), len(m.control))]
	for len(control) >= unix.SizeofCmsghdr {
		h := (*unix.Cmsghdr)(unsafe.Pointer(&control[0]))
		length := int(h.Len)
		if length < unix.SizeofCmsghdr || length > len(control) {
			return 0
		}
		data := control[unix.SizeofCmsghdr:length]
		// The data are three stamps, each of two 64-bit words: seconds and nanoseconds. The first
		// is the software stamp, the last the hardware stamp.
		if h.Level == unix.SOL_SOCKET && h.Type == unix.SCM_TIMESTAMPING && len(data) >= 16 {
			s := int64(binary.NativeEndian.Uint64(data))
			ns := int64(binary.NativeEndian.Uint64(data[8:]))
			return s*1_000_000_000 + ns
		}
		control = control[min(unix.CmsgSpace(length-unix.SizeofCmsghdr), len(control)):]
	}
	return 0
}
