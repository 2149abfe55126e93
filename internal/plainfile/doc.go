// Package plainfile opens files that may be anything, and accepts only regular ones.
//
// A path can lead to a FIFO, which waits forever for a writer; to a device, which has no end; or to
// a file that somebody made longer than memory. So opening a file here never waits, reading has a
// limit, and errors name what was refused. [ReadOwn] does not follow links: it is for directories
// that programs write to. [Read] follows links, because a mounted secret or table is a link.
//
// The package is independent of formats and directories.
package plainfile
