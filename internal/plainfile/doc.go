// Package plainfile opens files from places where anything may be, and accepts only regular files.
//
// A path can lead to a FIFO, where an open waits forever for a writer, to a device without an end,
// or to a file that is larger than the memory. So opening a file here never waits, reading has a
// limit, and errors name what was refused. [ReadOwn] does not follow links: it is for directories
// to which programs write. [Read] follows links, because a mounted secret or table is a link.
//
// If permission is missing, the error names this user and the owner of the file. [UserName] is also
// for other errors that say whose a file or directory is.
//
// The package is independent of formats and directories.
package plainfile
