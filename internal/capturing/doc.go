// Package capturing gives an agent its capture of messages: it makes a capture of package
// blackbox/capture fit the interface of package agent. The two packages do not know each other,
// because most agents capture nothing.
package capturing
