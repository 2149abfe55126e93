// Package privileged is for tests that require root: for network namespaces, other users, and file
// locks of other users.
//
// Such a test is named TestPrivileged… and begins with [Need]. A plain "go test" skips it, and so
// requires no privileges of the machine. "make test-privileged" runs all such tests. There, if a
// privilege is missing, the test fails and is not skipped. If a machine lacks something else, such
// as a kernel feature, the test itself fails and names the feature.
package privileged
