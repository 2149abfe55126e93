package capture

import (
	"bufio"
	"net/netip"
	"os"
	"strings"

	"github.com/cloudprofiler/cloudprofiler/blackbox"
)

// hostsFile is the file in which a machine has names of addresses.
const hostsFile = "/etc/hosts"

// hostNames are the names of addresses in a hosts file. An answer of DNS is the content of a
// message, so the capture does not know it.
type hostNames map[netip.Addr][]string

// readHosts returns the names in a hosts file, without those of the loopback interface. It returns
// none if it cannot read the file.
func readHosts(path string) hostNames {
	names := hostNames{}
	f, err := os.Open(path)
	if err != nil {
		return names
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		text, _, _ := strings.Cut(lines.Text(), "#")
		words := strings.Fields(text)
		if len(words) == 0 {
			continue
		}
		if a, err := netip.ParseAddr(words[0]); err == nil && a.Zone() == "" && !a.IsLoopback() {
			names[a.Unmap()] = append(names[a.Unmap()], words[1:]...)
		}
	}
	return names
}

// logNames logs the names of an address.
func (names hostNames) logNames(a netip.Addr, put func([]blackbox.Event, error) bool, at uint64) {
	if !a.IsValid() {
		return
	}
	for _, name := range names[a.Unmap()] {
		put(blackbox.HostName{Source: blackbox.Hosts, Address: a.Unmap(), Name: name}.Events(at))
	}
}
