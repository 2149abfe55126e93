package blackbox

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// A Family is a family of addresses. The numbers are in logs, so they never change.
type Family uint8

const (
	UNIX Family = 1
	IPv4 Family = 4
	IPv6 Family = 6
)

// A Protocol is the number of a protocol, as in an IP header. For UNIX sockets it is the type of
// the socket, or 0 if that is not known. The numbers are in logs, so they never change.
type Protocol uint8

const (
	TCP Protocol = 6
	UDP Protocol = 17

	UNIXStream   Protocol = 1
	UNIXDatagram Protocol = 2
	UNIXPackets  Protocol = 5 // SOCK_SEQPACKET
)

// A Connection describes one end of a connection: a socket.
type Connection struct {
	Number   uint32 // valid in the records of one log
	Family   Family
	Protocol Protocol
	Local    netip.AddrPort // not valid for UNIX sockets
	Remote   netip.AddrPort // the address is 0 if the socket is not connected
	// Namespace is the number of the socket's network namespace on its machine.
	Namespace uint32
	Cookie    uint64 // the kernel's number of the socket: no two sockets of one boot have the same
	Peer      uint64 // the cookie of a UNIX socket's peer; 0: not known

	// PeerProcess is the process that made the other end of a UNIX connection: it called connect,
	// listen or socketpair. Another process may use that end now. 0: not known.
	PeerProcess uint32

	// Sends and Receives are the sequence numbers with which TCP began the two streams. At one end
	// of a connection, a number may be one less than at the other end. TCP chose the numbers at
	// random. So they distinguish a connection from all others, even if addresses are translated on
	// the way. Both numbers are 0 for other protocols.
	Sends, Receives uint32
}

// A Thread describes a thread.
type Thread struct {
	Number  uint32
	Process uint32 // the kernel's number of the process
	Program string // the name of the process
	Name    string // the name of the thread
}

// A Place says where a process runs, as far as the name of the process's cgroup tells it.
type Place struct {
	Process   uint32 // the kernel's number of the process
	Runtime   string // what made the container, such as "docker"; "": it is in no container
	Container string // the container's id
	Pod       string // the unique id of the Kubernetes pod
	PodName   string // the pod's namespace and name, with a slash between them
	Unit      string // the unit of systemd, such as "nginx.service"
}

// A description of the kind Told belongs to no connection. Where other descriptions have the number
// of a connection, this kind has a number that says what is described. The number aboutPlace stands
// for a Place.
const aboutPlace = 1

// MaxText is the largest number of bytes of a text in a Place.
const MaxText = 64

// partBytes is the number of bytes of a description in one record.
const partBytes = 7

// Events returns the records of a description, all with the same stamp.
func (c Connection) Events(at_cycles uint64) ([]Event, error) {
	b := []byte{0, byte(c.Family), byte(c.Protocol)}
	b = binary.LittleEndian.AppendUint16(b, c.Local.Port())
	b = binary.LittleEndian.AppendUint16(b, c.Remote.Port())
	b = binary.LittleEndian.AppendUint32(b, c.Namespace)
	b = binary.LittleEndian.AppendUint64(b, c.Cookie)
	b = binary.LittleEndian.AppendUint64(b, c.Peer)
	if c.Family == UNIX { // it has no sequence numbers
		c.Sends, c.Receives = c.PeerProcess, 0
	}
	b = binary.LittleEndian.AppendUint32(b, c.Sends)
	b = binary.LittleEndian.AppendUint32(b, c.Receives)
	for _, a := range []netip.Addr{c.Local.Addr(), c.Remote.Addr()} {
		switch {
		case c.Family == UNIX:
		case c.Family == IPv4 && a.Is4(), c.Family == IPv6 && a.Is6():
			b = append(b, a.AsSlice()...)
		default:
			return nil, fmt.Errorf("describe connection: address %q in family %d: %w",
				a, c.Family, ErrRecord)
		}
	}
	return makeRecords(Described, 0, c.Number, b, at_cycles)
}

// Events returns the records of a description, all with the same stamp.
func (t Thread) Events(at_cycles uint64) ([]Event, error) {
	if t.Number > MaxThread {
		return nil, fmt.Errorf("describe thread %d: %w", t.Number, ErrRecord)
	}
	b := binary.LittleEndian.AppendUint32([]byte{0}, t.Process)
	for _, s := range []string{t.Program, t.Name} {
		if len(s) > 15 {
			return nil, fmt.Errorf("describe thread: name %q: %w", s, ErrRecord)
		}
		b = append(append(b, byte(len(s))), s...)
	}
	return makeRecords(Named, t.Number, 0, b, at_cycles)
}

// Events returns the records of a place, all with the same stamp.
func (p Place) Events(at_cycles uint64) ([]Event, error) {
	if p.Process > MaxThread {
		return nil, fmt.Errorf("say where process %d runs: %w", p.Process, ErrRecord)
	}
	b := []byte{0}
	for _, s := range p.texts() {
		if len(*s) > MaxText {
			return nil, fmt.Errorf("say where process %d runs: %q: %w", p.Process, *s, ErrRecord)
		}
		b = append(append(b, byte(len(*s))), *s...)
	}
	if len(b) > 255 {
		return nil, fmt.Errorf("say where process %d runs: %w", p.Process, ErrRecord)
	}
	return makeRecords(Told, p.Process, aboutPlace, b, at_cycles)
}

func (p *Place) texts() []*string {
	return []*string{&p.Runtime, &p.Container, &p.Pod, &p.PodName, &p.Unit}
}

// decodePlace decodes a place. It reports whether the place is valid.
func decodePlace(process uint32, b []byte) (p Place, ok bool) {
	if p.Process = process; len(b) == 0 {
		return p, false
	}
	rest := b[1:]
	for _, s := range p.texts() {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) || rest[0] > MaxText {
			return p, false
		}
		*s, rest = string(rest[1:1+rest[0]]), rest[1+rest[0]:]
	}
	return p, len(rest) == 0
}

// makeRecords cuts a description into records. It first sets the first byte to the description's
// length.
func makeRecords(k Kind, number, connection uint32, b []byte, at_cycles uint64) ([]Event, error) {
	if !isStamp(at_cycles) {
		return nil, fmt.Errorf("describe at %d cycles: %w", at_cycles, ErrRecord)
	}
	b[0] = byte(len(b))
	var events []Event
	for part := 0; len(b) > 0; part++ {
		var word [8]byte
		b = b[copy(word[:partBytes], b):]
		events = append(events, Event{at_cycles, headerID(k, part, number, connection)},
			Event{at_cycles, binary.LittleEndian.Uint64(word[:])})
	}
	return events, nil
}

// decodeConnection decodes the description of a connection. It reports whether the description is
// valid.
func decodeConnection(number uint32, b []byte) (c Connection, ok bool) {
	const fixed = 35
	if len(b) < fixed || number == 0 {
		return c, false
	}
	c = Connection{
		Number: number, Family: Family(b[1]), Protocol: Protocol(b[2]),
		Namespace: binary.LittleEndian.Uint32(b[7:]),
		Cookie:    binary.LittleEndian.Uint64(b[11:]), Peer: binary.LittleEndian.Uint64(b[19:]),
		Sends: binary.LittleEndian.Uint32(b[27:]), Receives: binary.LittleEndian.Uint32(b[31:]),
	}
	each := 0
	switch c.Family {
	case UNIX:
	case IPv4:
		each = 4
	case IPv6:
		each = 16
	default:
		return c, false
	}
	if len(b) != fixed+2*each {
		return c, false
	}
	if c.Family == UNIX {
		c.PeerProcess, c.Sends = c.Sends, 0
		return c, c.Receives == 0 && binary.LittleEndian.Uint32(b[3:]) == 0
	}
	local, _ := netip.AddrFromSlice(b[fixed : fixed+each])
	remote, _ := netip.AddrFromSlice(b[fixed+each:])
	c.Local = netip.AddrPortFrom(local, binary.LittleEndian.Uint16(b[3:]))
	c.Remote = netip.AddrPortFrom(remote, binary.LittleEndian.Uint16(b[5:]))
	return c, true
}

// decodeThread decodes the description of a thread. It reports whether the description is valid.
func decodeThread(number uint32, b []byte) (t Thread, ok bool) {
	if len(b) < 7 {
		return t, false
	}
	t = Thread{Number: number, Process: binary.LittleEndian.Uint32(b[1:])}
	rest := b[5:]
	for _, s := range []*string{&t.Program, &t.Name} {
		if len(rest) == 0 || len(rest) < 1+int(rest[0]) || rest[0] > 15 {
			return t, false
		}
		*s, rest = string(rest[1:1+rest[0]]), rest[1+rest[0]:]
	}
	return t, len(rest) == 0
}
