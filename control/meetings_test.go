package control

import "testing"

func TestMeetingsThatCannotBe(t *testing.T) {
	good := Meeting{Train: 1, OwnLo: 1, OwnHi: 1, PeerLo: 2, PeerHi: 2}
	for name, ms := range map[string][]Meeting{
		"of no train":      {{Train: 2}},
		"of train -1":      {{Train: -1}},
		"own backwards":    {{OwnLo: 2, OwnHi: 1}},
		"peer backwards":   {{PeerLo: 2, PeerHi: 1}},
		"three in a train": {good, good, good},
	} {
		m := &Trains{Peer: "b", Trains: make([]Train, 2), Meetings: ms}
		if err := m.check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	m := &Trains{Peer: "b", Trains: make([]Train, 2), Meetings: []Meeting{good, good}}
	if err := m.check(); err != nil {
		t.Error(err)
	}
}
