package io.github.cloudprofiler.agent.advice;

import io.github.cloudprofiler.Channel;
import io.github.cloudprofiler.agent.advice.KafkaAdvice.Origin;
import io.github.cloudprofiler.agent.advice.KafkaAdvice.Sending;

/**
 * Kafka Streams reads, processes and sends on one thread. At each moment, it can name the record
 * that it is processing, even if a cache or a buffer kept a result for a while. So a record that a
 * sink sends is linked with the record that Streams names then. For a record that a punctuation
 * sends, Streams names none, so that record is not linked. {@link KafkaAdvice} logs the sent
 * records.
 */
public final class StreamsAdvice {
    private StreamsAdvice() {}

    /** The state of a task of Kafka Streams. One thread at a time uses it. */
    private static final class Task {
        final Channel start;
        final Channel end;
        String topic = "";
        int partition;
        long first; // the id of the offset 0
        long current;

        Task(String name) {
            start = Points.open(name + "/start", false);
            end = Points.open(name + "/end", false);
        }
    }

    private static String name(Object taskId, Object context) throws ReflectiveOperationException {
        return Points.actor(Reach.call(context, "applicationId") + "-"
                + Reach.call(taskId, "subtopology")) + "#" + Reach.call(taskId, "partition");
    }

    /** Makes the state of a task. */
    public static Object task(Object taskId, Object context) throws ReflectiveOperationException {
        return new Task(name(taskId, context));
    }

    /** A task begins to process a record. */
    public static void started(Object task, String topic, int partition, long offset) {
        Task t = (Task) task;
        if (partition != t.partition || !topic.equals(t.topic)) {
            t.topic = topic;
            t.partition = partition;
            t.first = KafkaAdvice.first(topic, partition);
        }
        t.current = t.first + offset;
        if (t.start.keeps(t.current)) {
            t.start.log(t.current);
        }
    }

    /** A task has processed a record. */
    public static void ended(Object task) {
        Task t = (Task) task;
        if (t != null && t.end.keeps(t.current)) {
            t.end.log(t.current);
        }
    }

    /** The state of the object that sends the records of a task. */
    private static final class Sink {
        // Streams sends the changes of its state stores without a context. These changes are not
        // logged.
        static final Origin STORE = new Origin("", false, 0, false);

        final Object taskId;
        String actor;
        String topic = "";
        int partition;
        long first;

        Sink(Object taskId) {
            this.taskId = taskId;
        }
    }

    /** Makes the state of the object that sends a task's records. */
    public static Object sink(Object taskId) {
        return new Sink(taskId);
    }

    /** A sink has a record to send. */
    public static void collected(Object sink, Object context) throws Throwable {
        Sending.ofThread().next = context == null ? Sink.STORE : origin((Sink) sink, context);
    }

    private static Origin origin(Sink s, Object context) throws Throwable {
        if (s.actor == null) {
            s.actor = name(s.taskId, context);
        }
        Object record = Reach.get(context, "recordContext");
        String topic = record == null ? null : (String) Reach.get(record, "topic");
        long offset = topic == null ? -1 : Reach.number(record, "offset");
        if (offset < 0) { // a punctuation
            return new Origin(s.actor, false, 0, true);
        }
        int partition = (int) Reach.number(record, "partition");
        if (partition != s.partition || !topic.equals(s.topic)) {
            s.topic = topic;
            s.partition = partition;
            s.first = KafkaAdvice.first(topic, partition);
        }
        return new Origin(s.actor, true, s.first + offset, true);
    }

    /** Streams passes to its producer the record that it took from its sink. */
    public static void sending(Object record) {
        Sending.ofThread().record = record;
    }
}
