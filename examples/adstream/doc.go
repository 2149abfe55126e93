// Command adstream runs the advertising benchmark on an embedded NATS JetStream cluster, with every
// operator instrumented. It runs all nodes in one process, or one node in each of several
// processes.
//
//	go run ./examples/adstream -logs /tmp/ads      # three nodes in one process
//	adstream -node b -placement placement.yaml     # node b of a placement; start all like this
//
// docs/adstream.md describes what it does and what to look at. Package job is the implementation,
// and shows how to instrument an operator.
package main
