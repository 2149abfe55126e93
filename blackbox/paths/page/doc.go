// Package page draws the paths of a run as one self-contained page: the trees of patterns with the
// time that requests spent in each call, and time lines of the slowest paths. How sure a link is
// shows in its line. Package blackbox/paths computes what the page shows.
package page
