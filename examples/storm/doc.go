// Command storm shows Cloudprofiler with Apache Storm: a cluster of ZooKeeper, Nimbus and
// supervisors, each supervisor with a worker on a virtual node, runs the advertising benchmark. The
// topology in adstream has no line of Cloudprofiler. The workers are started with the Java agent,
// which logs what each task sends and receives, but only the tuples that Storm tracks (it calls
// them anchored). Then every duration is compared with the truth.
//
// "make demo-storm" builds the demonstration, with jars from Maven Central, and runs it. Storm
// listens on all interfaces, so the script puts it into a network namespace that has the loopback
// interface alone.
package main
