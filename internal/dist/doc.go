// Package dist holds the archive of "make dist" against what a user is told to do with it: its commands run, its units and its container file
// start what is in it, and what the documents point at is there. It is tests alone, which "make test-dist" gives an archive; it packs none.
package dist
