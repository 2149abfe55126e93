package org.apache.flink.streaming.runtime.streamrecord;

/** Stands for Flink's class of this name, by which the advice knows a record. */
public final class StreamRecord {}
