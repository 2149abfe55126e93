package minrtt

import "testing"

// Counts.Bytes never returns fewer bytes than a train put on the network.
func TestBytesCoverATrain(t *testing.T) {
	f := kernelPair(t)
	tr, err := f.p.Train(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	probes := uint64(1 + f.p.config.Exchanges)
	bytes := 2*(probes*shortSize+longSize) + 2*(probes+1)*48
	if got := tr.Counts.Bytes(); got < bytes || got > bytes*3/2 {
		t.Errorf("%d bytes, and the train was %d", got, bytes)
	}
	if got := (Counts{}).Bytes(); got != 0 {
		t.Errorf("%d bytes of nothing", got)
	}
}
