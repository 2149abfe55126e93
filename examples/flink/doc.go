// Command flink shows Cloudprofiler with Apache Flink: a cluster of a JobManager and TaskManagers,
// each TaskManager on a virtual node, runs the advertising benchmark. The job in adstream has no
// line of Cloudprofiler. The TaskManagers are started with the Java agent, which logs what each
// task sends and receives. Then every duration is compared with the truth.
//
// "make demo-flink" builds the demonstration, with jars from Maven Central, and runs it.
package main
