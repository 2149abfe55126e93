package memory

import (
	"context"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestPrivateBytesGrowWithWhatIsWritten(t *testing.T) {
	const more = 64 << 20
	before, err := Private_bytes(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	// Memory that Go allocates may have been written before.
	b, err := unix.Mmap(-1, 0, more, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Munmap(b)
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
