package logstore

import (
	"fmt"
	"io"
)

// Fingerprint identifies a file without reading all of it. It covers the header at the beginning of
// a sealed segment and the list of blocks at the end. The blocks' own checksums protect the rest.
type Fingerprint struct {
	Bytes int64 // length of the file

	// Checksums of the first and the last fingerprintBytes of the file, or of all bytes if it is
	// shorter.
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

// String returns the text that parseFingerprint reads.
func (f Fingerprint) String() string { return fmt.Sprintf("%d %08x %08x", f.Bytes, f.Head, f.Tail) }

func parseFingerprint(text string) (Fingerprint, error) {
	var f Fingerprint
	_, err := fmt.Sscanf(text, "%d %x %x", &f.Bytes, &f.Head, &f.Tail)
	if err != nil || f.Bytes < 0 || f.String() != text {
		return Fingerprint{}, fmt.Errorf("fingerprint %q is not a length and two checksums", text)
	}
	return f, nil
}
