// Package capturing connects an agent with a capture of messages: it adapts package
// blackbox/capture to the interface of package agent. These two packages do not import each other,
// because most agents capture nothing.
package capturing
