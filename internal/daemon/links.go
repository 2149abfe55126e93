package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"

	"github.com/cloudprofiler/cloudprofiler/control"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
)

// A Setting is a key of a configuration together with its value.
type Setting struct{ Key, Value string }

// Link returns the configuration with which a node reaches its server. The node uses its secret key
// and the server's public key, or no keys. If node is empty, the key may be that of any node. If
// advertise is empty, the link finds an address itself.
func Link(node, server, key, serverKey, advertise string) (l tscclient.LinkConfig, err error) {
	l.Server.Server = server
	if advertise != "" {
		if l.Advertise, err = Address("advertise", advertise); err != nil {
			return l, err
		}
	}
	if (key == "") != (serverKey == "") {
		return l, errors.New("key and server_key: give both, or neither if the server is on this " +
			"machine: one says who this node is, the other who the server is")
	}
	if key == "" {
		return l, l.Server.Check()
	}
	own, err := control.ReadKey(key)
	if errors.Is(err, fs.ErrNotExist) {
		return l, fmt.Errorf("key: %w: make it with \"cprof keys client\"", err)
	} else if err != nil {
		return l, fmt.Errorf("key: %w", err)
	}
	if node != "" && node != own.Name { // the server checks this, too
		return l, fmt.Errorf("key %q: it is the key of %s %q, but this is node %q: make one with "+
			"\"cprof keys client %s\"",
			key, own.Role, own.Name, node, node)
	}
	public := func() ([]string, error) { return control.ReadServerKeys(serverKey) }
	if _, err := public(); err != nil {
		return l, fmt.Errorf("server_key: %w", err)
	}
	l.Server.Key, l.Server.Publics = &own, public
	return l, l.Server.Check()
}

// Listen returns the configuration with which this program accepts connections. It uses this
// program's secret key and the public keys in a directory. Without keys, only this machine can
// connect.
func Listen(address string, key, clients Setting) (control.ServerConfig, error) {
	c := control.ServerConfig{Address: address}
	if (key.Value == "") != (clients.Value == "") {
		return c, fmt.Errorf("%s and %s: give both, or neither: one says who this is, the other "+
			"who is let in", key.Key, clients.Key)
	}
	if key.Value == "" {
		return c, c.Check()
	}
	own, err := control.ReadKey(key.Value)
	if errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("%s: %w: make it with \"cprof keys server\"", key.Key, err)
	} else if err != nil {
		return c, fmt.Errorf("%s: %w", key.Key, err)
	}
	if _, err := os.Stat(clients.Value); err != nil {
		return c, fmt.Errorf("%s: %w", clients.Key, err)
	}
	c.Key, c.Clients = &own, control.ClientKeys(clients.Value)
	return c, c.Check()
}

// Address parses the IP address and port that the configuration gives for a key.
func Address(key, text string) (netip.AddrPort, error) {
	a, err := netip.ParseAddrPort(text)
	if err != nil {
		return a, fmt.Errorf("%s %q: want an IP address and a port, as 127.0.0.1:7341 or "+
			"0.0.0.0:7341", key, text)
	}
	return a, nil
}
