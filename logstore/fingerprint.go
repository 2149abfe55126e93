package logstore

import (
	"fmt"
	"io"
)

// Fingerprint identifies a file by its length, its first bytes and its last bytes. In a sealed
// segment, the first bytes are those of the header, and the last bytes are those of the index and
// the end. The bytes between are in blocks, which have their own checksums.
type Fingerprint struct {
	Bytes int64 // length of the file

	// Head and Tail are the checksums of the first and the last fingerprintBytes of the file. If
	// the file is shorter, both are the checksum of the whole file.
	Head, Tail uint32
}

const fingerprintBytes = 4096

// TakeFingerprint reads the file's first and last bytes and returns its fingerprint.
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
