// Package dist holds the archive of "make dist" against what users are told to do with it. Its
// commands run and are small, its units and its container file start what is in it, and what the
// documents point at is there.
//
// The package is only tests. "make test-dist" packs an archive and gives it to them.
package dist
