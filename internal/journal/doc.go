// Package journal reads and writes journals. A journal is a file to which blocks with checksums are
// only ever appended.
//
// A process that is killed while it appends leaves a torn block at the end. Open cuts the torn
// block off and says how many bytes it cut. The package does not interpret the content of blocks.
// It does not guarantee which blocks survive a crash of the machine.
//
//	offset  bytes  what
//	     0      8  magic of the owner's format
//	     8      4  version of the owner's format
//	    12      –  blocks
//
// A block is the length n of its content (4 bytes), the content (n bytes), and the CRC-32C
// (Castagnoli) of the length and the content (4 bytes). Numbers are little-endian.
package journal
