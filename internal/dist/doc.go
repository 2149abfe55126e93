// Package dist checks the archive of "make dist" against what users are told to do with it. The
// commands in the archive run and are small. Its units and its container file start programs that
// the archive contains, and the files to which its documents refer exist.
//
// The package contains only tests. "make test-dist" packs an archive and runs them on it.
package dist
