package logstore

import (
	"fmt"
	"io"
)

// Fingerprint tells a file from others without reading all of it: a sealed segment has its header
// at its front, and lists its blocks at its end. That its middle is whole, its blocks' checksums
// say.
type Fingerprint struct {
	Bytes int64 // of the file

	// Checksums of its first and last bytes: fingerprintBytes of each, or all that there are.
	Head, Tail uint32
}

const fingerprintBytes = 4096

// TakeFingerprint reads a file's fingerprint.
func TakeFingerprint(from io.ReaderAt, size int64) (Fingerprint, error) {
	f := Fingerprint{Bytes: size}
	b := make([]byte, min(size, fingerprintBytes))
	for _, part := range []struct {
		at  int64
		sum *uint32
	}{{0, &f.Head}, {size - int64(len(b)), &f.Tail}} {
		if n, err := from.ReadAt(b, part.at); n < len(b) {
			return f, fmt.Errorf("take fingerprint of %d bytes: offset %d: %w", size, part.at, err)
		}
		*part.sum = checksum(b)
	}
	return f, nil
}

// String is what parseFingerprint reads.
func (f Fingerprint) String() string { return fmt.Sprintf("%d %08x %08x", f.Bytes, f.Head, f.Tail) }

func parseFingerprint(text string) (Fingerprint, error) {
	var f Fingerprint
	_, err := fmt.Sscanf(text, "%d %x %x", &f.Bytes, &f.Head, &f.Tail)
	if err != nil || f.Bytes < 0 || f.String() != text {
		return Fingerprint{}, fmt.Errorf("fingerprint %q is no length with two checksums", text)
	}
	return f, nil
}
