// Command adstream runs the advertising benchmark on an embedded NATS JetStream cluster, with every actor instrumented: all of it in one
// process, or one node of it in each of several.
//
//	go run ./examples/adstream -logs /tmp/ads                     # three nodes in one process
//	adstream -node b -placement placement.yaml                    # node b of a placement; so for each node
//
// What it does and what to look at is in docs/adstream.md; how it works, and what to copy, in package job.
package main
