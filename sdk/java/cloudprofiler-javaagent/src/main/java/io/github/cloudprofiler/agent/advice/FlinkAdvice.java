package io.github.cloudprofiler.agent.advice;

import io.github.cloudprofiler.agent.Say;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;

/**
 * Flink's records have no ids. But they travel in queues, the subpartitions. Only one task writes
 * to a subpartition, and only one task reads it, in the same order. So both tasks count the
 * elements, and make the id from the count: see {@link Ordinals}. All elements are counted:
 * records, watermarks and the rest. Only records are logged. The name of a partition contains the
 * attempt that produces it, so after a failure the ids are new.
 */
public final class FlinkAdvice {
    private FlinkAdvice() {}

    /** The state of an output: the id of the next element of each subpartition. */
    private static final class Output {
        final String partition;
        final FlinkTask task;
        final long[] next;
        final boolean[] uncounted; // subpartitions with elements that nobody counted
        private boolean complete = true; // there is no such subpartition
        Class<?> records; // of the last record; null if there is such a subpartition

        Output(String partition, FlinkTask task, int subpartitions) {
            this.partition = partition;
            this.task = task;
            next = new long[subpartitions];
            uncounted = new boolean[subpartitions];
            for (int i = 0; i < subpartitions; i++) {
                next[i] = Ordinals.first(partition + "/" + i);
            }
        }

        Kind kindOf(Object element) {
            if (element == null) {
                return Kind.FOREIGN;
            }
            Kind kind = KINDS.get(element.getClass());
            if (kind == Kind.RECORD && complete) {
                records = element.getClass();
            }
            return kind;
        }

        /** Stops giving ids to a subpartition: elements that nobody can count went into it. */
        void uncount(int subpartition) {
            uncounted[subpartition] = true;
            complete = false;
            records = null;
        }
    }

    private static final Map<String, Output> OUTPUTS = new HashMap<>();

    /** Returns the state of an output. The code woven into a writer's class and into its subclass
     * gets the same state. */
    public static Object output(Object partitionWriter) throws ReflectiveOperationException {
        String partition = Reach.call(partitionWriter, "getPartitionId").toString();
        int subpartitions = (int) Reach.call(partitionWriter, "getNumberOfSubpartitions");
        synchronized (OUTPUTS) {
            Output o = OUTPUTS.get(partition);
            if (o == null) {
                String owner = (String) Reach.call(partitionWriter, "getOwningTaskName");
                FlinkTask task = FlinkTask.use(owner);
                task.openOutput();
                o = new Output(partition, task, subpartitions);
                OUTPUTS.put(partition, o);
            }
            return o;
        }
    }

    /** What a program may give to a writer. */
    private enum Kind { RECORD, OTHER_ELEMENT, FOREIGN }

    private static final String ELEMENTS = "org.apache.flink.streaming.runtime.streamrecord.";

    private static final ClassValue<Kind> KINDS = new ClassValue<>() {
        @Override
        protected Kind computeValue(Class<?> type) {
            for (Class<?> c = type; c != null; c = c.getSuperclass()) {
                if (c.getName().equals(ELEMENTS + "StreamRecord")) {
                    return Kind.RECORD;
                }
                if (c.getName().equals(ELEMENTS + "StreamElement")) {
                    return Kind.OTHER_ELEMENT;
                }
            }
            return Kind.FOREIGN;
        }
    };

    /** An element goes into one subpartition. */
    public static void sent(Object output, Object element, int subpartition) {
        Output o = (Output) output;
        long id = o.next[subpartition]++;
        if (element != null && element.getClass() == o.records) {
            o.task.sent(id);
        } else {
            sent(o, element, subpartition, id);
        }
    }

    private static void sent(Output o, Object element, int subpartition, long id) {
        Kind kind = o.kindOf(element);
        if (kind == Kind.RECORD) {
            if (!o.uncounted[subpartition]) {
                o.task.sent(id);
            }
        } else if (kind == Kind.FOREIGN && !o.uncounted[subpartition]) {
            // This is a job of the DataSet interface, which gives bare records to the same writer.
            o.uncount(subpartition);
            Say.once("flink: tasks of the DataSet interface write bare records, which have no ids");
        }
    }

    /** An element that is not a record goes into one subpartition. */
    public static void counted(Object output, int subpartition) {
        ((Output) output).next[subpartition]++;
    }

    /** An element goes into all subpartitions. In each of them it becomes a separate tuple. */
    public static void broadcast(Object output, Object element) {
        Output o = (Output) output;
        for (int i = 0; i < o.next.length; i++) {
            sent(o, element, i);
        }
    }

    /**
     * After a restart from an unaligned checkpoint, elements come into a subpartition as bytes,
     * which nobody can count. From then on the subpartition gets no ids.
     */
    public static void restored(Object output, int subpartition) {
        Output o = (Output) output;
        o.uncount(subpartition);
        Say.once(o.task.owner + ": the restored records of an unaligned checkpoint cannot be "
                + "counted: what follows them in the same channels has no ids");
    }

    /**
     * A writer is closed. The parameter output is null if the writer wrote nothing. Even then the
     * partition may have an output, because elements were restored into it.
     */
    public static void outputClosed(Object output, Object partitionWriter)
            throws ReflectiveOperationException {
        String partition = output == null
                ? Reach.call(partitionWriter, "getPartitionId").toString()
                : ((Output) output).partition;
        Output o;
        synchronized (OUTPUTS) {
            o = OUTPUTS.remove(partition);
        }
        if (o != null) { // null: it is closed already, or was never used
            o.task.leave();
        }
    }

    /** Returns whether there is an output for a partition. */
    static boolean isOpen(String partition) {
        synchronized (OUTPUTS) {
            return OUTPUTS.containsKey(partition);
        }
    }

    /** Returns whether an output gives ids to the next elements of a subpartition. */
    static boolean numbers(Object output, int subpartition) {
        return !((Output) output).uncounted[subpartition];
    }

    /** A queue at an input. */
    private static final class Queue {
        final Object info; // how the input names the queue
        final boolean counted;
        long next;

        Queue(Object info, boolean counted, long next) {
            this.info = info;
            this.counted = counted;
            this.next = next;
        }
    }

    /** An input of a task: its queues, one for each subpartition that it reads. */
    private static final class Input {
        final Object gate;
        final FlinkTask task;
        final Map<Object, Object> channels = new IdentityHashMap<>(); // by the queue's name
        final Map<Object, Queue> queues = new IdentityHashMap<>();
        Queue last = new Queue(null, false, 0);
        boolean closed;

        Input(Object gate, FlinkTask task) {
            this.gate = gate;
            this.task = task;
        }

        // The index in a queue's name does not help: each gate of a union counts its queues from 0.
        void findChannels() throws ReflectiveOperationException {
            int n = (int) Reach.call(gate, "getNumberOfInputChannels");
            for (int i = 0; i < n; i++) {
                Object channel = Reach.call(gate, "getChannel", i);
                channels.put(Reach.field(channel, "channelInfo"), channel);
            }
        }
    }

    /** Makes the state of an input. */
    public static Object input(Object gate) throws ReflectiveOperationException {
        Object channel = Reach.call(gate, "getChannel", 0);
        Object single = Reach.field(channel, "inputGate");
        FlinkTask task = FlinkTask.use((String) Reach.call(single, "getOwningTaskName"));
        task.openInput();
        return new Input(gate, task);
    }

    /** An element came out of a queue, and the task begins to work on it. */
    public static void received(Object input, Object queue, boolean isRecord)
            throws ReflectiveOperationException {
        Input in = (Input) input;
        Queue q = in.last;
        if (q.info != queue) {
            q = find(in, queue);
            if (!q.counted) {
                in.task.pass();
                return;
            }
            in.last = q;
        }
        long id = q.next++;
        if (isRecord) {
            in.task.work(id);
        } else {
            in.task.pass();
        }
    }

    private static Queue find(Input in, Object info) throws ReflectiveOperationException {
        FlinkTask.OF_THREAD.set(in.task);
        Queue q = in.queues.get(info);
        if (q == null) {
            q = open(in, info);
            in.queues.put(info, q);
        }
        return q;
    }

    /** Returns whether an input knows the ids of the elements in a queue. */
    static boolean counts(Object input, Object queue) throws ReflectiveOperationException {
        return find((Input) input, queue).counted;
    }

    private static Queue open(Input in, Object info) throws ReflectiveOperationException {
        if (!in.channels.containsKey(info)) {
            in.findChannels();
        }
        Object channel = in.channels.get(info);
        if (channel == null) {
            Say.once(in.task.owner + ": a queue of an input is none of its channels now, as "
                    + "after an unaligned checkpoint is restored; its records have no ids");
            return new Queue(info, false, 0);
        }
        if (Reach.isA(channel, RECOVERED)) {
            return new Queue(info, false, 0);
        }
        Object subpartitions = Reach.field(channel, "consumedSubpartitionIndexSet");
        if ((int) Reach.call(subpartitions, "size") != 1) {
            Say.once(in.task.owner + ": an input reads several subpartitions as one queue; its "
                    + "records have no ids");
            return new Queue(info, false, 0);
        }
        int index0 = (int) Reach.call(subpartitions, "getStartIndex");
        String partition = Reach.call(channel, "getPartitionId").toString();
        return new Queue(info, true, Ordinals.first(partition + "/" + index0));
    }

    private static final String RECOVERED =
            "org.apache.flink.runtime.io.network.partition.consumer.RecoveredInputChannel";

    /** The task has finished its work on the element that came last. */
    public static void processed(Object input) {
        if (input != null) {
            ((Input) input).task.finish();
        }
    }

    /** An input is closed. */
    public static void inputClosed(Object input) {
        if (input != null && !((Input) input).closed) {
            ((Input) input).closed = true;
            ((Input) input).task.leave();
        }
    }

    /**
     * A timer, or a letter of the mailbox (code that was handed to the task's thread), is about to
     * run. The task may be working on a record. The records that the timer or letter emits are not
     * made of that record.
     */
    public static void interrupted() {
        FlinkTask t = FlinkTask.OF_THREAD.get();
        if (t != null) {
            t.interrupt();
        }
    }

    /** The timer or the letter has run. */
    public static void resumed() {
        FlinkTask t = FlinkTask.OF_THREAD.get();
        if (t != null) {
            t.resume();
        }
    }
}
