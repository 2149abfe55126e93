package analysis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cloudprofiler/cloudprofiler/logstore"
)

// The facts of a node name each place once, and at most maxPlaces places. The node's own facts,
// which are stored in the run, do not change.
func TestPlacesOfPrograms(t *testing.T) {
	in := &input{nodes: make([]nodeInput, 3)}
	in.nodes[0].Facts = map[string]string{"kernel": "6.1"}
	log := func(node int, place string) {
		in.sources = append(in.sources,
			source{node: node, header: logstore.Header{Place: place}})
	}
	log(0, "pod shop/cart-2")
	log(0, "pod shop/cart-1")
	log(0, "pod shop/cart-2")
	log(0, "")
	for i := range maxPlaces + 3 {
		log(1, fmt.Sprintf("unit %02d.service", i))
	}
	log(2, "")
	if got := in.nodeFacts(0); got[factPlaces] != "pod shop/cart-1; pod shop/cart-2" ||
		got["kernel"] != "6.1" || len(in.nodes[0].Facts) != 1 {
		t.Errorf("%v, and the run says %v", got, in.nodes[0].Facts)
	}
	if got := in.nodeFacts(1)[factPlaces]; !strings.HasPrefix(got, "unit 00.service; unit 01") ||
		!strings.HasSuffix(got, "unit 19.service; 3 more") {
		t.Errorf("%q", got)
	}
	if got := in.nodeFacts(2); got != nil {
		t.Errorf("%v of a node whose programs ran nowhere in particular", got)
	}
}
