package io.github.cloudprofiler.agent.advice;

import io.github.cloudprofiler.Channel;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Function;

/**
 * An anchored tuple of Storm has the random ids of its roots, the spouts' tuples that it was made
 * of. These ids are logged, so a tuple keeps its id from the spout to the last bolt. A tuple with
 * several roots is logged once for each root.
 */
public final class StormAdvice {
    private StormAdvice() {}

    /** The channels of a task, which is an instance of a component. */
    private static final class Task {
        final Channel recv;
        final Channel end;

        Task(String name) {
            recv = Points.open(name + "/recv", false);
            end = Points.open(name + "/end", false);
        }
    }

    /**
     * An executor hands over the tuples of its tasks to an object of Storm, the transfer. The state
     * of the transfer is the channels of these tasks. Other executors do not share the channels,
     * because another topology in the same JVM may use the same task numbers.
     */
    private static final class Transfer {
        // A bolt may emit from threads of its own, so these channels are shared.
        final Sends anchored = new Sends();
        final Sends unanchored = new Sends();
    }

    /** The channels of what tasks send. */
    private static final class Sends {
        private record Last(int task, Channel channel) {}

        private final Map<Integer, Channel> all = new ConcurrentHashMap<>();
        private volatile Last last = new Last(-1, null);

        Channel of(Object tuple, int task, Function<String, Channel> open)
                throws ReflectiveOperationException {
            Last l = last;
            if (l.task != task) {
                Channel c = all.get(task);
                if (c == null) {
                    String component = (String) Reach.call(tuple, "getSourceComponent");
                    c = all.computeIfAbsent(task, t -> open.apply(name(component, t)));
                }
                last = l = new Last(task, c);
            }
            return l.channel;
        }
    }

    /** Makes the state of a transfer. */
    public static Object transfer() {
        return new Transfer();
    }

    private static String name(String component, int task) {
        return Points.actor(component) + "#" + task;
    }

    /**
     * An executor hands a tuple to the transfer. At the first attempt, it also passes a queue for
     * tuples that do not fit. At a second attempt it passes no queue, and the tuple is not logged
     * again.
     */
    public static void sent(
            Object transfer, Object tuple, int task, String stream, Map<?, ?> roots, Object queue)
            throws ReflectiveOperationException {
        if (queue == null) {
            return;
        }
        if (roots.isEmpty()) {
            if (!stream.startsWith("__")) {
                unanchored(transfer, tuple, task).log(0);
            }
            return;
        }
        Channel c = channel(transfer, tuple, task);
        for (Object root : roots.keySet()) {
            long id = (Long) root;
            if (c.keeps(id)) {
                c.log(id);
            }
        }
    }

    /** Returns the channel for what a task sends. */
    static Channel channel(Object transfer, Object tuple, int task)
            throws ReflectiveOperationException {
        return ((Transfer) transfer).anchored.of(
                tuple, task, name -> Points.open(name + "/send", true));
    }

    /**
     * Returns the channel that counts the tuples that a task sends without an anchor. Such tuples
     * have no id, and the analysis says so.
     */
    static Channel unanchored(Object transfer, Object tuple, int task)
            throws ReflectiveOperationException {
        return ((Transfer) transfer).unanchored.of(
                tuple, task, name -> Points.openCount(name + "/unanchored"));
    }

    /** The state of a bolt's executor: its tasks by number. */
    private static final class Bolt {
        final String component;
        Task[] tasks = {};

        Bolt(String component) {
            this.component = component;
        }

        Task task(int number) {
            if (number >= tasks.length || tasks[number] == null) {
                tasks = java.util.Arrays.copyOf(tasks, Math.max(tasks.length, number + 1));
                tasks[number] = new Task(name(component, number));
            }
            return tasks[number];
        }
    }

    /** Makes the state of a bolt's executor. */
    public static Object bolt(String component) {
        return new Bolt(component);
    }

    /** A bolt begins to work on a tuple. */
    public static void received(Object bolt, int task, Map<?, ?> roots) {
        if (!roots.isEmpty()) {
            log(((Bolt) bolt).task(task).recv, roots);
        }
    }

    /** A bolt has worked on a tuple. */
    public static void processed(Object bolt, int task, Map<?, ?> roots) {
        if (bolt != null && !roots.isEmpty()) {
            log(((Bolt) bolt).task(task).end, roots);
        }
    }

    private static void log(Channel c, Map<?, ?> roots) {
        for (Object root : roots.keySet()) {
            long id = (Long) root;
            if (c.keeps(id)) {
                c.log(id);
            }
        }
    }
}
