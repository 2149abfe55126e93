package analysis

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// factPlaces is the name of a fact about a node. The fact says where the programs that logged there
// ran.
const factPlaces = "programs_ran_in"

// maxPlaces is the largest number of places that the fact names.
const maxPlaces = 20

// nodeFacts returns what is known about a node: what the node said about itself, and the pods,
// containers and units in which programs logged there.
func (in *input) nodeFacts(node int) map[string]string {
	n := in.nodes[node]
	var places []string
	for i := range in.sources {
		s := &in.sources[i]
		if p := s.header.Place; s.node == node && p != "" && !slices.Contains(places, p) {
			places = append(places, p)
		}
	}
	if len(places) == 0 {
		return n.Facts
	}
	slices.Sort(places)
	if more := len(places) - maxPlaces; more > 0 {
		places = append(places[:maxPlaces], fmt.Sprintf("%d more", more))
	}
	facts := maps.Clone(n.Facts)
	if facts == nil {
		facts = map[string]string{}
	}
	facts[factPlaces] = strings.Join(places, "; ")
	return facts
}
