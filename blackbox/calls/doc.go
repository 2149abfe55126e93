// Package calls describes what programs ask of each other: a call is a request and its response, as
// seen from outside of the programs. It also reads calls out of traces that others recorded.
//
//	set, err := calls.Read(calls.Jaeger, "traces/")
//
// In traces, each span names its parent. Read keeps these names apart from the calls: what it gives
// to package blackbox/link is only what a capture of messages would see, and the rest is the truth
// by which links are judged. spans.go says how spans become calls.
package calls
