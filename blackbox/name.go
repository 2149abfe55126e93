package blackbox

import (
	"fmt"
	"net/netip"
)

// A Source says who gave an address its name. The numbers are in logs, so they never change. New
// ones are only added at the end.
type Source uint8

const (
	Asked Source = 1 // the process asked for the addresses of this name
	Hosts Source = 2 // the file /etc/hosts
)

// sourceNames are the words of FORMAT.md.
var sourceNames = map[Source]string{Asked: "asked", Hosts: "hosts"}

func (s Source) String() string { return sourceNames[s] }

// A HostName says that an address has a name. An address may have several names.
type HostName struct {
	Process uint32 // Asked: the kernel's number of the process; otherwise 0
	Source  Source
	Address netip.Addr // without a zone
	Name    string     // 1 to MaxName bytes
}

// MaxName is the largest number of bytes of a HostName's name.
const MaxName = 200

// aboutName is the number that stands for a HostName in a description of the kind Told: see
// aboutPlace.
const aboutName = 2

// Events returns the records of a name, all with the same stamp.
func (n HostName) Events(at_cycles uint64) ([]Event, error) {
	if !n.valid() {
		return nil, fmt.Errorf("name address %q %q: %w", n.Address, n.Name, ErrRecord)
	}
	b := []byte{0, byte(n.Source), byte(IPv4)}
	if n.Address.Is6() {
		b[2] = byte(IPv6)
	}
	b = append(append(b, n.Address.AsSlice()...), n.Name...)
	return makeRecords(Told, n.Process, aboutName, b, at_cycles)
}

func (n *HostName) valid() bool {
	return n.Process <= MaxThread && sourceNames[n.Source] != "" &&
		(n.Process == 0 || n.Source == Asked) && n.Address.IsValid() && n.Address.Zone() == "" &&
		len(n.Name) > 0 && len(n.Name) <= MaxName
}

// hostName decodes a name. It reports whether the name is valid.
func hostName(process uint32, b []byte) (n HostName, ok bool) {
	const fixed = 3
	each := map[Family]int{IPv4: 4, IPv6: 16}
	if len(b) < fixed || len(b) < fixed+each[Family(b[2])] {
		return n, false
	}
	n.Process, n.Source = process, Source(b[1])
	n.Address, _ = netip.AddrFromSlice(b[fixed : fixed+each[Family(b[2])]])
	n.Name = string(b[fixed+each[Family(b[2])]:])
	return n, n.valid()
}
