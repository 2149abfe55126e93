// Command kafka shows Cloudprofiler with Apache Kafka: a broker, a producer, two instances of a
// Kafka Streams application with the advertising benchmark, and a consumer. The producer and the
// consumer share a virtual node, and each instance has its own. The programs in adstream have no
// line of Cloudprofiler. They are started with the Java agent, which logs what they send and
// receive. Then every duration is compared with the truth.
//
// "make demo-kafka" builds the demonstration, with jars from Maven Central, and runs it.
package main
