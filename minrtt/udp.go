package minrtt

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// UDPConfig configures ListenUDP and DialUDP.
type UDPConfig struct {
	// Counter reads the node's counter, after everything that the program did before the call. It
	// is required.
	Counter func() uint64

	// Spin is how long Receive polls after a packet before it sleeps in the kernel. After a sleep,
	// a CPU takes tens of microseconds to wake. Polling uses all of a core's time. 0 means to sleep
	// at once.
	Spin time.Duration

	// UserStampsOnly switches kernel stamps off.
	UserStampsOnly bool

	// HardwareInterface is the index of the network interface whose own stamps are requested in
	// addition to the kernel's. 0 means none. The interface must have been told to stamp. Stamps of
	// other interfaces are not used.
	HardwareInterface int
}

// UDP is a Transport on a socket of its own, with raw system calls. With the runtime's network
// poller, a scheduler would run between a packet and its stamp. Only one goroutine at a time may
// use a UDP, but any goroutine may call Close.
type UDP struct {
	counter func() uint64
	spin    time.Duration
	ipv6    bool
	local   netip.AddrPort

	connected bool

	transmit, receives Source
	hardware           int // the interface whose own stamps are used; 0: none

	fd          int
	closed      atomic.Bool
	interrupted atomic.Uint64 // number of receives that a signal ended
	// A goroutine holds this mutex during its system calls on fd, so that Close does not close fd
	// meanwhile.
	use sync.Mutex

	// Only the goroutine that uses the Transport uses these fields.
	wait       time.Duration // SO_RCVTIMEO
	lastPacket time.Time     // time of the last packet, sent or received
	in         messageMemory // filled by Receive
	errors     messageMemory // filled by SentStamps
	queued     []byte        // buffer for the packets in errors
	to         unix.RawSockaddrAny
	toLength   uint32
	toAddr     netip.AddrPort // the address that to contains
}

// messageMemory is the memory that recvmsg fills.
type messageMemory struct {
	header  unix.Msghdr
	vector  unix.Iovec
	sender  unix.RawSockaddrAny
	control [256]byte
}

// pointHeader points the header at the buffers to fill. It must be called before each recvmsg,
// because recvmsg overwrites lengths.
func (m *messageMemory) pointHeader(b []byte) {
	m.vector.Base = unsafe.SliceData(b)
	m.vector.SetLen(len(b))
	m.header = unix.Msghdr{
		Name:    (*byte)(unsafe.Pointer(&m.sender)),
		Namelen: uint32(unsafe.Sizeof(m.sender)),
		Iov:     &m.vector,
		Control: &m.control[0],
	}
	m.header.SetIovlen(1)
	m.header.SetControllen(len(m.control))
}

// maxWait is the longest time that Receive sleeps in one system call. Waking up costs more than the
// call, so the thread should wake up rarely.
const maxWait = 1 << 16 * time.Millisecond

// pollsPerTurn is the number of polls after which Receive yields the CPU. Receive reads the time
// after every fourth yield.
const pollsPerTurn = 16

func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

// ListenUDP opens a socket that answers on a local address. Port 0 means any free port.
func ListenUDP(local netip.AddrPort, config UDPConfig) (*UDP, error) {
	u, err := openUDP(local, config)
	if err != nil {
		return nil, fmt.Errorf("listen on UDP %v: %w%s", local, err, bindRemedy(err))
	}
	return u, nil
}

// bindRemedy returns what to do if an address cannot be bound.
func bindRemedy(err error) string {
	switch {
	case errors.Is(err, unix.EADDRNOTAVAIL):
		return ": this machine does not have the address: use one of its own, or 0.0.0.0"
	case errors.Is(err, unix.EADDRINUSE):
		return ": another program uses the port: end that program, or use another port"
	case errors.Is(err, unix.EACCES):
		return ": only root may use the port: use a port from 1024 on"
	}
	return ""
}

// DialUDP opens a socket that exchanges packets with one remote address only.
func DialUDP(remote netip.AddrPort, config UDPConfig) (*UDP, error) {
	local := netip.AddrPortFrom(netip.IPv4Unspecified(), 0)
	if remote.Addr().Unmap().Is6() {
		local = netip.AddrPortFrom(netip.IPv6Unspecified(), 0)
	}
	u, err := openUDP(local, config)
	if err == nil {
		if err = u.connect(remote); err != nil {
			_ = u.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("dial UDP %v: %w", remote, err)
	}
	return u, nil
}

func openUDP(local netip.AddrPort, config UDPConfig) (*UDP, error) {
	if config.Counter == nil {
		return nil, errors.New("no counter given")
	}
	if !local.IsValid() {
		return nil, errors.New("no local address given")
	}
	u := &UDP{counter: config.Counter, spin: config.Spin, ipv6: local.Addr().Unmap().Is6()}
	family := unix.AF_INET
	if u.ipv6 {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	u.fd = fd
	if err := u.setUp(local); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	if !config.UserStampsOnly {
		u.askForStamps(config.HardwareInterface)
	}
	return u, nil
}

func (u *UDP) setUp(local netip.AddrPort) error {
	if u.ipv6 {
		// One socket serves one address family only. On a socket for both, an IPv4 peer's address
		// would have two written forms.
		if err := unix.SetsockoptInt(u.fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return os.NewSyscallError("setsockopt IPV6_V6ONLY", err)
		}
	}
	// With GRO, packets that arrive together share one stamp. GRO is off by default, but may have
	// been turned on, so turn it off. Kernels before 5.0 do not have it.
	_ = unix.SetsockoptInt(u.fd, unix.IPPROTO_UDP, unix.UDP_GRO, 0)
	u.setAddress(local)
	if err := u.withAddress(unix.SYS_BIND); err != nil {
		return os.NewSyscallError("bind", err)
	}
	bound, err := unix.Getsockname(u.fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	port := uint16(0)
	switch a := bound.(type) {
	case *unix.SockaddrInet4:
		port = uint16(a.Port)
	case *unix.SockaddrInet6:
		port = uint16(a.Port)
	}
	u.local = netip.AddrPortFrom(local.Addr(), port)
	return nil
}

func (u *UDP) connect(remote netip.AddrPort) error {
	if !remote.IsValid() || remote.Port() == 0 {
		return errors.New("no remote address and port given")
	}
	u.setAddress(netip.AddrPortFrom(remote.Addr().Unmap(), remote.Port()))
	if err := u.withAddress(unix.SYS_CONNECT); err != nil {
		return os.NewSyscallError("connect", err)
	}
	u.connected = true
	return nil
}

// withAddress calls bind or connect with the address in u.to.
func (u *UDP) withAddress(call uintptr) error {
	_, _, errno := unix.Syscall(call, uintptr(u.fd), uintptr(unsafe.Pointer(&u.to)),
		uintptr(u.toLength))
	if errno != 0 {
		return errno
	}
	return nil
}

// LocalAddr returns the address to which the socket is bound.
func (u *UDP) LocalAddr() netip.AddrPort { return u.local }

// Now does what Transport.Now does.
func (u *UDP) Now() time.Time { return time.Now() }

// Close closes the socket. A Receive that is waiting returns ErrClosed.
func (u *UDP) Close() error {
	if u.closed.Swap(true) {
		return ErrClosed
	}
	// On a socket that is not connected, Shutdown fails. But it still wakes a waiting Receive.
	_ = unix.Shutdown(u.fd, unix.SHUT_RD)
	u.use.Lock()
	defer u.use.Unlock()
	return unix.Close(u.fd)
}

// Send does what Transport.Send does. After an error the packet did not leave.
func (u *UDP) Send(packet []byte, to netip.AddrPort) (Sent, error) {
	u.use.Lock()
	defer u.use.Unlock()
	if u.closed.Load() {
		return Sent{}, ErrClosed
	}
	if to != u.toAddr {
		if u.connected {
			return Sent{}, fmt.Errorf("send to %v: the socket is connected to %v", to, u.toAddr)
		}
		u.setAddress(to)
	}
	address, length := unsafe.Pointer(&u.to), uintptr(u.toLength)
	if u.connected {
		// A connected socket knows its route. If the call passed an address, the kernel would look
		// up the route again.
		address, length = nil, 0
	}
	for {
		before := u.counter()
		// Sending does not wait. If the queue is full, the packet is taken as lost.
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(u.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(packet))),
			uintptr(len(packet)), unix.MSG_DONTWAIT, uintptr(address), length)
		switch errno {
		case 0:
			if u.spin > 0 {
				u.lastPacket = time.Now()
			}
			return Sent{Before_cycles: before}, nil
		case unix.EINTR:
			continue // nothing was sent: read the counter again
		}
		return Sent{}, fmt.Errorf("send to %v: %w", to, errno)
	}
}

// Receive does what Transport.Receive does.
func (u *UDP) Receive(b []byte, until time.Time) (Received, error) {
	u.use.Lock()
	defer u.use.Unlock()
	if u.spin > 0 {
		end := u.lastPacket.Add(u.spin)
		if until.Before(end) {
			end = until
		}
		for i := 1; ; i++ {
			if r, errno := u.receiveOnce(b, unix.MSG_DONTWAIT); errno != unix.EAGAIN &&
				errno != unix.EINTR {
				return u.completeReceived(r, errno)
			}
			if i%pollsPerTurn != 0 {
				continue
			}
			// If the other end shares this CPU, it cannot answer while this thread polls. If the
			// thread did not yield, a round trip of 10 µs would take milliseconds.
			yield()
			if i%(4*pollsPerTurn) == 0 && !time.Now().Before(end) {
				break
			}
		}
	}
	for {
		if u.closed.Load() {
			return Received{}, ErrClosed
		}
		left := time.Until(until)
		if left <= 0 {
			// A packet that has already arrived is accepted, even if the deadline has passed.
			r, errno := u.receiveOnce(b, unix.MSG_DONTWAIT)
			if errno == unix.EAGAIN || errno == unix.EINTR {
				return Received{}, ErrTimeout
			}
			return u.completeReceived(r, errno)
		}
		if err := u.setWait(left); err != nil {
			return Received{}, err
		}
		// The runtime preempts goroutines by a signal, which ends the call with EINTR. This happens
		// in up to half of all exchanges.
		switch r, errno := u.receiveOnce(b, 0); errno {
		case unix.EINTR:
			u.interrupted.Add(1)
		case unix.EAGAIN:
		default:
			return u.completeReceived(r, errno)
		}
	}
}

// setWait sets how long one receive sleeps: at least for the time left, and at most for four times
// the time left. Setting the time costs a system call. In the common case all calls have the same
// timeout, and setWait changes nothing.
func (u *UDP) setWait(left time.Duration) error {
	left = min(left, maxWait)
	if left <= u.wait && u.wait <= 4*left {
		return nil
	}
	want := time.Millisecond
	for want < left {
		want *= 2
	}
	tv := unix.NsecToTimeval(int64(want))
	if err := unix.SetsockoptTimeval(u.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
		return os.NewSyscallError("setsockopt SO_RCVTIMEO", err)
	}
	u.wait = want
	return nil
}

// completeReceived adds the sender, and the stamps that the kernel delivered, to the result of
// Receive.
func (u *UDP) completeReceived(r Received, errno syscall.Errno) (Received, error) {
	if u.closed.Load() {
		return Received{}, ErrClosed
	}
	if errno != 0 {
		return Received{}, fmt.Errorf("receive on UDP %v: %w", u.local, errno)
	}
	if u.spin > 0 {
		u.lastPacket = time.Now()
	}
	if r.From = u.toAddr; !u.connected {
		r.From = addressOf(&u.in.sender)
	}
	r.Stamps = u.in.findStamps(u.hardware)
	return r, nil
}

// receiveOnce makes one system call and then reads the counter. If the call sleeps, the runtime
// must know about it. If the call polls, telling the runtime would cost as much as the call. With
// MSG_TRUNC the kernel returns the length of the whole packet, even if only a part of it fitted.
func (u *UDP) receiveOnce(b []byte, flags uintptr) (Received, syscall.Errno) {
	flags |= unix.MSG_TRUNC
	polls := flags&unix.MSG_DONTWAIT != 0
	var n uintptr
	var errno syscall.Errno
	switch {
	case u.receives == Kernel && polls:
		u.in.pointHeader(b)
		n, _, errno = unix.RawSyscall(unix.SYS_RECVMSG, uintptr(u.fd),
			uintptr(unsafe.Pointer(&u.in.header)), flags)
	case u.receives == Kernel:
		u.in.pointHeader(b)
		n, _, errno = unix.Syscall(unix.SYS_RECVMSG, uintptr(u.fd),
			uintptr(unsafe.Pointer(&u.in.header)), flags)
	case polls:
		u.in.header.Namelen = uint32(unsafe.Sizeof(u.in.sender))
		n, _, errno = unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(u.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			flags, uintptr(unsafe.Pointer(&u.in.sender)),
			uintptr(unsafe.Pointer(&u.in.header.Namelen)))
	default:
		u.in.header.Namelen = uint32(unsafe.Sizeof(u.in.sender))
		n, _, errno = unix.Syscall6(unix.SYS_RECVFROM, uintptr(u.fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			flags, uintptr(unsafe.Pointer(&u.in.sender)),
			uintptr(unsafe.Pointer(&u.in.header.Namelen)))
	}
	return Received{Length: int(n), After_cycles: u.counter()}, errno
}

// setAddress writes an address into u.to, where sendto reads it.
func (u *UDP) setAddress(a netip.AddrPort) {
	u.toAddr = a
	port := [2]byte{byte(a.Port() >> 8), byte(a.Port())}
	if !u.ipv6 {
		to := (*unix.RawSockaddrInet4)(unsafe.Pointer(&u.to))
		*to = unix.RawSockaddrInet4{Family: unix.AF_INET}
		*(*[2]byte)(unsafe.Pointer(&to.Port)) = port
		if addr := a.Addr().Unmap(); addr.Is4() {
			to.Addr = addr.As4()
		}
		u.toLength = unix.SizeofSockaddrInet4
		return
	}
	to := (*unix.RawSockaddrInet6)(unsafe.Pointer(&u.to))
	*to = unix.RawSockaddrInet6{Family: unix.AF_INET6, Scope_id: scopeOf(a.Addr().Zone())}
	*(*[2]byte)(unsafe.Pointer(&to.Port)) = port
	if a.Addr().IsValid() {
		to.Addr = a.Addr().As16()
	}
	u.toLength = unix.SizeofSockaddrInet6
}

// scopeOf returns the index of the interface that zone names, by index or by name. If there is no
// such interface, it returns 0.
func scopeOf(zone string) uint32 {
	if zone == "" {
		return 0
	}
	if n, err := strconv.ParseUint(zone, 10, 32); err == nil {
		return uint32(n)
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index)
	}
	return 0
}

// addressOf reads the address that recvmsg wrote.
func addressOf(s *unix.RawSockaddrAny) netip.AddrPort {
	switch s.Addr.Family {
	case unix.AF_INET:
		a := (*unix.RawSockaddrInet4)(unsafe.Pointer(s))
		port := *(*[2]byte)(unsafe.Pointer(&a.Port))
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(port[0])<<8|uint16(port[1]))
	case unix.AF_INET6:
		a := (*unix.RawSockaddrInet6)(unsafe.Pointer(s))
		port := *(*[2]byte)(unsafe.Pointer(&a.Port))
		addr := netip.AddrFrom16(a.Addr)
		if a.Scope_id != 0 {
			addr = addr.WithZone(strconv.FormatUint(uint64(a.Scope_id), 10))
		}
		return netip.AddrPortFrom(addr, uint16(port[0])<<8|uint16(port[1]))
	}
	return netip.AddrPort{}
}
