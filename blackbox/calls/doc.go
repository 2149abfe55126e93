// Package calls describes calls between programs: a call is a request and its response, as seen
// from outside the programs. The package also reads calls from traces that others recorded.
//
//	set, err := calls.Read(calls.Jaeger, "traces/")
//
// In traces, each span names its parent. Read stores the parents apart from the calls, so that
// package blackbox/link only gets what a capture of messages would see. The parents are the truth
// by which links are judged. spans.go says how spans become calls.
package calls
