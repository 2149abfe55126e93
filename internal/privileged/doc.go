// Package privileged is for tests that need root: for network namespaces, other users, and file
// locks of others.
//
// Such a test is named TestPrivileged… and begins with [Need]. A plain "go test" skips it and so
// asks nothing of the machine. "make test-privileged" runs all of them; there a lacking privilege
// fails the test instead of skipping it. If a machine lacks something else, such as a kernel
// feature, the test itself fails with the feature's name.
package privileged
