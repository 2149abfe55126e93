// Package privileged is for tests that need root: network namespaces, other users, file locks of others.
//
// Such a test is named TestPrivileged… and begins with [Need]. A plain "go test" skips it, so that it asks nothing of the
// machine; "make test-privileged" runs all of them, and there a lacking privilege fails the test and does not skip it.
// What a machine may lack besides (a kernel feature) the test says itself, by failing with the feature's name.
package privileged
