package accuracy

import (
	"net/netip"

	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/minrtt/zmqtransport"
)

func listenZeroMQ(at netip.AddrPort, counter func() uint64) (minrtt.Transport, netip.AddrPort, error) {
	t, bound, err := zmqtransport.Listen(at, counter)
	if err != nil {
		return nil, bound, err
	}
	return t, bound, nil
}

func dialZeroMQ(to netip.AddrPort, counter func() uint64) (minrtt.Transport, error) {
	t, err := zmqtransport.Dial(to, counter)
	if err != nil {
		return nil, err
	}
	return t, nil
}
