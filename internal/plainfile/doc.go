// Package plainfile opens files that may be anything, and accepts only regular ones.
//
// A path can lead to a FIFO, which waits forever for a writer; to a device, which has no end; or to
// a file that somebody made longer than memory. So an open here never waits, a read has a limit,
// and both name what they refuse. [ReadOwn] follows no link either: it is for directories that
// programs write to. [Read] follows links, because a mounted secret or table is one.
//
// The package knows no format and no directory.
package plainfile
