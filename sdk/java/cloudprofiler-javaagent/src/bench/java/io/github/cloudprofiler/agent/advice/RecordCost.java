package io.github.cloudprofiler.agent.advice;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.Map;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Answers each line of input with the nanoseconds that the agent's advices add to one record, so
 * that "cp-bench java" can measure the C library between two answers. "flink" asks for the cost of
 * a record that a task receives, works on and sends; "flink-sampled" for the same if 2 of 1,024 are
 * kept; "storm" for a tuple that a bolt receives, works on and sends on. The argument is the
 * directory for the rings of Storm. The caller must drain this directory. The program contains no
 * engine, but objects with the members that the advices use.
 */
public final class RecordCost {
    private static final int RECORDS = 30_000;
    private static final int TUPLES = 5_000; // a ring has room for the tuples of several turns
    private static final int WARM_UP = 300; // turns, after which the JIT has nothing left to do

    private RecordCost() {}

    private static final class Range {
        int size() {
            return 1;
        }

        int getStartIndex() {
            return 0;
        }
    }

    /** Takes the place of a gate with one channel, and of a partition with one subpartition. */
    private static final class Task {
        final Task inputGate = this;
        final Range consumedSubpartitionIndexSet = new Range();
        final Object channelInfo = new Object();
        private final String name;

        Task(String name) {
            this.name = name;
        }

        int getNumberOfInputChannels() {
            return 1;
        }

        Task getChannel(int i) {
            return this;
        }

        int getNumberOfSubpartitions() {
            return 1;
        }

        String getPartitionId() {
            return name;
        }

        String getOwningTaskName() {
            return name + " (1/1)#0 (a_0_0)";
        }
    }

    /** A task of Flink with its input and its output. */
    private static final class Flink {
        private final Task task;
        private final Object input;
        private final Object output;
        private final Object record = new StreamRecord();

        Flink(String name, long x, long y) throws ReflectiveOperationException {
            Points.configure(new Points.Keep(x, y), "overwrite", null);
            task = new Task(name);
            input = FlinkAdvice.input(task);
            output = FlinkAdvice.output(task);
            turn(); // it opens the channel of links, with this configuration
        }

        double turn() throws ReflectiveOperationException {
            long start = System.nanoTime();
            for (int i = 0; i < RECORDS; i++) {
                FlinkAdvice.received(input, task.channelInfo, true);
                FlinkAdvice.sent(output, record, 0);
                FlinkAdvice.processed(input);
            }
            return (double) (System.nanoTime() - start) / RECORDS;
        }
    }

    /** A tuple of Storm. */
    private static final class Tuple {
        String getSourceComponent() {
            return "bolt";
        }
    }

    /** A bolt of Storm. */
    private static final class Storm {
        private final Object bolt;
        private final Object transfer;
        private final Tuple tuple = new Tuple();
        private final Map<Long, Long> roots = Map.of(4_711L, 1L);

        Storm(String rings) {
            // The channel for sent records has many writers, so its ring cannot overwrite.
            Points.configure(new Points.Keep(1, 1), "block", rings);
            bolt = StormAdvice.bolt("bolt");
            transfer = StormAdvice.transfer();
        }

        double turn() throws ReflectiveOperationException {
            long start = System.nanoTime();
            for (int i = 0; i < TUPLES; i++) {
                StormAdvice.received(bolt, 1, roots);
                StormAdvice.sent(transfer, tuple, 1, "default", roots, this);
                StormAdvice.processed(bolt, 1, roots);
            }
            return (double) (System.nanoTime() - start) / TUPLES;
        }
    }

    public static void main(String[] args) throws IOException, ReflectiveOperationException {
        Flink every = new Flink("every", 1, 1);
        Flink sampled = new Flink("sampled", 2, 1024);
        Storm storm = new Storm(args[0]);
        for (int i = 0; i < WARM_UP; i++) {
            every.turn();
            sampled.turn();
            storm.turn();
        }
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String order; (order = orders.readLine()) != null; ) {
            System.out.println(switch (order) {
                case "flink" -> every.turn();
                case "flink-sampled" -> sampled.turn();
                case "storm" -> storm.turn();
                default -> throw new IllegalArgumentException(order);
            });
        }
    }
}
