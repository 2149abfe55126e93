package netns

import (
	"encoding/binary"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// This file implements the part of rtnetlink(7) that virtual links (veth) require. A request has a
// fixed part and attributes, and the kernel answers with an error number. Numbers are in the
// machine's byte order.

var native = binary.NativeEndian

// attribute appends an attribute: its length and type, its value, and padding to four bytes.
func attribute(b []byte, kind uint16, value []byte) []byte {
	b = native.AppendUint16(b, uint16(unix.SizeofRtAttr+len(value)))
	b = native.AppendUint16(b, kind)
	b = append(b, value...)
	for len(b)%unix.NLMSG_ALIGNTO != 0 {
		b = append(b, 0)
	}
	return b
}

// linkPart returns the fixed part of a request about links, a struct ifinfomsg.
func linkPart(index int, flags, change uint32) []byte {
	b := []byte{unix.AF_UNSPEC, 0, 0, 0}
	b = native.AppendUint32(b, uint32(index))
	b = native.AppendUint32(b, flags)
	return native.AppendUint32(b, change)
}

// addVeth makes a link. Its near end is in the namespace of the calling thread, and its far end in
// another namespace.
func addVeth(name, peer string, namespace int) error {
	const vethInfoPeer = 1 // VETH_INFO_PEER in linux/veth.h
	far := linkPart(0, 0, 0)
	far = attribute(far, unix.IFLA_IFNAME, append([]byte(peer), 0))
	far = attribute(far, unix.IFLA_NET_NS_FD, native.AppendUint32(nil, uint32(namespace)))
	info := attribute(nil, unix.IFLA_INFO_KIND, []byte("veth"))
	info = attribute(info, unix.IFLA_INFO_DATA, attribute(nil, vethInfoPeer, far))
	request := linkPart(0, 0, 0)
	request = attribute(request, unix.IFLA_IFNAME, append([]byte(name), 0))
	request = attribute(request, unix.IFLA_LINKINFO, info)
	return ask(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, request)
}

// addBridge makes a bridge.
func addBridge(name string) error {
	request := linkPart(0, 0, 0)
	request = attribute(request, unix.IFLA_IFNAME, append([]byte(name), 0))
	request = attribute(request, unix.IFLA_LINKINFO,
		attribute(nil, unix.IFLA_INFO_KIND, []byte("bridge")))
	return ask(unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, request)
}

// addPort makes a link a port of a bridge.
func addPort(index, bridge int) error {
	return ask(unix.RTM_NEWLINK, 0, attribute(linkPart(index, 0, 0), unix.IFLA_MASTER,
		native.AppendUint32(nil, uint32(bridge))))
}

func setDown(index int) error { return ask(unix.RTM_NEWLINK, 0, linkPart(index, 0, unix.IFF_UP)) }

func setUp(index int) error {
	return ask(unix.RTM_NEWLINK, 0, linkPart(index, unix.IFF_UP, unix.IFF_UP))
}

func addAddress(index int, p netip.Prefix) error { return addAddressTo(index, p, p.Addr()) }

// addAddressTo gives a link the address of the prefix p. The link then leads only to the host with
// the address peer. But if peer is p's own address, the link leads to all addresses of the prefix.
func addAddressTo(index int, p netip.Prefix, peer netip.Addr) error {
	family := byte(unix.AF_INET)
	if p.Addr().Is6() {
		family = unix.AF_INET6
	}
	// The fixed part is a struct ifaddrmsg. No other host can have the address, so the kernel need
	// not look for one, which would take a second.
	request := []byte{family, byte(p.Bits()), unix.IFA_F_NODAD, unix.RT_SCOPE_UNIVERSE}
	request = native.AppendUint32(request, uint32(index))
	request = attribute(request, unix.IFA_LOCAL, p.Addr().AsSlice())
	request = attribute(request, unix.IFA_ADDRESS, peer.AsSlice())
	return ask(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_EXCL, request)
}

// addNeighbour tells the kernel the hardware address of a host behind a link, for ever.
func addNeighbour(index int, host netip.Addr, hardware net.HardwareAddr) error {
	// The fixed part is a struct ndmsg.
	request := []byte{unix.AF_INET, 0, 0, 0}
	request = native.AppendUint32(request, uint32(index))
	request = native.AppendUint16(request, unix.NUD_PERMANENT)
	request = append(request, 0, 0)
	request = attribute(request, unix.NDA_DST, host.AsSlice())
	request = attribute(request, unix.NDA_LLADDR, hardware)
	return ask(unix.RTM_NEWNEIGH, unix.NLM_F_CREATE|unix.NLM_F_REPLACE, request)
}

// addQueue puts a queue before a link. The queue is a token bucket filter (tc-tbf(8)). It lets
// through at most bytesPerSecond on average, and at most burst bytes at once.
func addQueue(index int, bytesPerSecond, burst uint32) error {
	const (
		root       = 0xffffffff // TC_H_ROOT in linux/pkt_sched.h
		ethernet   = 1          // TC_LINKLAYER_ETHERNET
		parameters = 1          // TCA_TBF_PARMS
		burstBytes = 6          // TCA_TBF_BURST
		waiting    = 1 << 30    // so many bytes may wait in the queue
	)
	// The fixed part is a struct tcmsg.
	request := make([]byte, 4, 128)
	for _, part := range []uint32{uint32(index), 0, root, 0} {
		request = native.AppendUint32(request, part)
	}
	// The parameters are a struct tc_tbf_qopt: two rates, and three numbers.
	p := make([]byte, 36)
	p[1] = ethernet
	native.PutUint32(p[8:], bytesPerSecond)
	native.PutUint32(p[24:], waiting)
	options := attribute(nil, parameters, p)
	options = attribute(options, burstBytes, native.AppendUint32(nil, burst))
	request = attribute(request, unix.TCA_KIND, []byte("tbf\x00"))
	request = attribute(request, unix.TCA_OPTIONS, options)
	return ask(unix.RTM_NEWQDISC, unix.NLM_F_CREATE|unix.NLM_F_EXCL, request)
}

// ask sends one request and returns the kernel's answer.
func ask(kind, flags uint16, request []byte) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	b := native.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(request)))
	b = native.AppendUint16(b, kind)
	b = native.AppendUint16(b, flags|unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	b = append(b, make([]byte, 8)...) // sequence number and sender, not needed here
	if err := unix.Sendto(fd, append(b, request...), 0,
		&unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return os.NewSyscallError("sendto", err)
	}
	reply := make([]byte, 4096)
	n := 0
	for {
		if n, _, err = unix.Recvfrom(fd, reply, 0); err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return os.NewSyscallError("recvfrom", err)
	}
	if n < unix.NLMSG_HDRLEN+4 {
		return errShortReply
	}
	if code := int32(native.Uint32(reply[unix.NLMSG_HDRLEN:])); code != 0 {
		return unix.Errno(-code)
	}
	return nil
}
