package tscclient_test

import (
	"context"
	"fmt"
	"log"
	"net/netip"

	"github.com/cloudprofiler/cloudprofiler/asm"
	"github.com/cloudprofiler/cloudprofiler/minrtt"
	"github.com/cloudprofiler/cloudprofiler/tscclient"
	"github.com/cloudprofiler/cloudprofiler/tscratio"
)

// A program relates its node's counter to another node's counter, without a server.
func Example() {
	id, err := tscclient.Identify("parser-3", tscclient.Kept{}) // takes about a second
	if err != nil {
		log.Fatal(err)
	}
	defer id.Close()
	notice, err := minrtt.OpenStepNotice()
	if err != nil {
		log.Fatal(err)
	}
	defer notice.Close()

	config := tscclient.DefaultConfig()
	config.Node, config.Epoch = id.Node, id.Epoch
	config.Clock = minrtt.SystemClock(asm.Counter, notice, id.RealtimeStep)
	config.Clock.Quantum_cycles = id.Node.Quantum_cycles
	config.Listen = netip.MustParseAddrPort("0.0.0.0:7341")
	client, err := tscclient.Start(config)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	// The other node describes itself over any connection between the two programs.
	other := tscclient.Peer{
		Node: tscratio.Node{
			Name: "sink-1", Epoch: "…",
			Nominal_hz: 2_596_000_000, Quantum_cycles: 26, CoreSlack_cycles: 200,
		},
		Address: netip.MustParseAddrPort("198.51.100.7:7341"),
	}
	for range 10 {
		if _, err := client.Train(context.Background(), other); err != nil {
			log.Print(err)
		}
	}
	for _, pair := range client.Pairs() {
		relation, err := pair.Relate(tscratio.SideA, pair.Declared.Wander)
		if err != nil {
			log.Print(err)
			continue
		}
		fmt.Println(relation.Verdict, relation.Limits())
	}
}
