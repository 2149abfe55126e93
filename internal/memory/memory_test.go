package memory

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestPrivateBytesGrowWithWhatIsWritten(t *testing.T) {
	const more = 64 << 20
	before, err := Private_bytes(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, more)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	after, err := Private_bytes(os.Getpid())
	if err != nil || after < before+more/2 {
		t.Errorf("%d bytes, then %d, %v", before, after, err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if peak, err := Peak_bytes(over, os.Getpid()); err != nil || peak < before+more/2 {
		t.Errorf("peak %d, %v", peak, err)
	}
	runtime.KeepAlive(b)
}

func TestMemoryOfNobody(t *testing.T) {
	const nobody = 1 << 30
	if _, err := Private_bytes(nobody); err == nil ||
		!strings.HasPrefix(err.Error(), "read memory") {
		t.Error(err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if peak, err := Peak_bytes(over, nobody); err == nil {
		t.Errorf("nobody has %d bytes", peak)
	}
}
