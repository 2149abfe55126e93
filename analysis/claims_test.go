package analysis

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/cloudprofiler/cloudprofiler/channel"
	"github.com/cloudprofiler/cloudprofiler/internal/simrun"
	"github.com/cloudprofiler/cloudprofiler/logstore"
	"github.com/cloudprofiler/cloudprofiler/runs"
)

// keepClaims writes the claims of a node's daemon into a run, in blocks of the given size.
func keepClaims(t *testing.T, run, node, epoch string, claims []logstore.NTP, each int) string {
	t.Helper()
	name, err := channel.ParseName("ntp/claims")
	if err != nil {
		t.Fatal(err)
	}
	settings, err := channel.NewSettings("buffered", nil)
	if err != nil {
		t.Fatal(err)
	}
	scratch := t.TempDir()
	h := logstore.Header{
		Node: node, Epoch: epoch, Channel: name, Settings: settings, Quantum_cycles: 1, UTCHi_ns: 1,
		Incarnation: logstore.Incarnation{1},
	}
	log, err := logstore.OpenLog(nil, scratch, h, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(claims); i += each {
		block := &logstore.Block{
			Incarnation: h.Incarnation, First: uint64(i), NTPs: claims[i:min(i+each, len(claims))],
		}
		if err := log.Append(block); err != nil {
			t.Fatal(err)
		}
	}
	if err := log.Seal(); err != nil {
		t.Fatal(err)
	}
	written, err := filepath.Glob(filepath.Join(scratch, "*"))
	if err != nil || len(written) != 1 {
		t.Fatalf("written %q, %v", written, err)
	}
	text, err := os.ReadFile(written[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(run, filepath.FromSlash(runs.BaselinePath(node)))
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClaims(t *testing.T) {
	parent := t.TempDir()
	if err := simrun.Chain(1, parent, "chain", 2, 100, 1000); err != nil {
		t.Fatal(err)
	}
	dir := openRun(t, parent, "chain")
	if _, err := Claims(dir, "A", "epoch-A"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("nothing was kept: error %v, want fs.ErrNotExist", err)
	}
	path := keepClaims(t, dir.Path, "A", "epoch-A", []logstore.NTP{
		{
			CounterLo: 10, CounterHi: 12, Offset_ns: -300, RootDelay_ns: 41, RootDispersion_ns: 7,
			Stratum: 3,
		},
		{CounterLo: 20, CounterHi: 22, Offset_ns: 1, Stratum: 0},
		{
			CounterLo: 30, CounterHi: 32, Offset_ns: 5, RootDelay_ns: 2, RootDispersion_ns: 1,
			Stratum: 3, Leap: 3,
		},
	}, 1)
	want := []Claim{{10, 12, 328, -300, true}, {20, 22, 0, 1, false}, {30, 32, 0, 5, false}}
	got, err := Claims(dir, "A", "epoch-A")
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v, claims (-want +got):\n%s", err, diff)
	}
	if _, err := Claims(dir, "B", "epoch-B"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("of B nothing was kept: error %v", err)
	}

	keepClaims(t, dir.Path, "B", "an older one", []logstore.NTP{{Stratum: 1}}, 1)
	if got, err := Claims(dir, "B", "epoch-B"); err == nil ||
		!strings.Contains(err.Error(), "epoch") {
		t.Errorf("claims of another epoch: %v, %v", got, err)
	}

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[bytes.Index(text, []byte("\ncrc32c "))+60] ^= 0x55 // in the first block, after the header
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	got, err = Claims(dir, "A", "epoch-A")
	var damage *logstore.CorruptionError
	if !errors.As(err, &damage) {
		t.Errorf("a damaged file: error %v, want a CorruptionError", err)
	}
	if diff := cmp.Diff(want[1:], got); diff != "" { // what follows the damage is read
		t.Errorf("claims of a damaged file (-want +got):\n%s", diff)
	}
}
