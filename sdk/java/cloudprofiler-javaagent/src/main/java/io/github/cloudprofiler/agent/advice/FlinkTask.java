package io.github.cloudprofiler.agent.advice;

import io.github.cloudprofiler.Channel;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One attempt to run a task, which is a chain of operators. An object of this class has the task's
 * channels, and knows the record that the task works on. The task's inputs and outputs share this
 * object. Flink lets only one thread at a time use the inputs and outputs.
 */
final class FlinkTask {
    // Such as "Source: Numbers -> Map (1/2)#0 (8c7…_0_0_0)": name, subtask, attempt, attempt's id.
    private static final Pattern OWNER =
            Pattern.compile("(.*) \\((\\d+)/\\d+\\)#\\d+ \\((.*)\\)", Pattern.DOTALL);

    private static final Map<String, FlinkTask> TASKS = new HashMap<>(); // by the owner's text

    /**
     * The task of a thread, for timers and letters of the mailbox, which do not come from an input.
     */
    static final ThreadLocal<FlinkTask> OF_THREAD = new ThreadLocal<>();

    final String owner;
    private final boolean linked = Points.keepsAll();

    // A channel is opened when it is first needed: a source receives nothing, a sink sends nothing.
    private Channel recv;
    private Channel end;
    private Channel send;
    private Channel links;

    /** For records that were not made from a record of an input, but by a timer or asynchronously.
     * */
    private Channel unlinked;

    private final String name; // of the channels, without the point
    private int users; // inputs and outputs that are open

    /**
     * WORKING while the task works on a record of an input, and IDLE otherwise. The field current
     * has the id of that record. Each interruption adds INTERRUPTED while it runs. Interruptions
     * may interrupt each other.
     */
    private int state;
    private static final int IDLE = 0;
    private static final int WORKING = 1;
    private static final int INTERRUPTED = 2;

    private long current;
    private boolean hasInput;

    private FlinkTask(String owner) {
        this.owner = owner;
        Matcher m = OWNER.matcher(owner);
        name = m.matches()
                ? Points.actor(m.group(1)) + "#" + (Integer.parseInt(m.group(2)) - 1)
                : Points.actor(owner);
    }

    void openInput() {
        hasInput = true;
        if (recv == null) {
            recv = Points.open(name + "/recv", false);
            end = Points.open(name + "/end", false);
        }
    }

    void openOutput() {
        if (send == null) {
            send = Points.open(name + "/send", false);
        }
    }

    static FlinkTask use(String owner) {
        synchronized (TASKS) {
            FlinkTask t = TASKS.computeIfAbsent(owner, FlinkTask::new);
            t.users++;
            return t;
        }
    }

    /** An input or an output no longer uses the task. When the last of them leaves, the channels
     * are closed. */
    void leave() {
        synchronized (TASKS) {
            if (--users > 0) {
                return;
            }
            TASKS.remove(owner);
        }
        for (Channel c : new Channel[] {recv, end, send, links, unlinked}) {
            if (c != null) {
                c.close();
            }
        }
    }

    /** Logs a record that is sent. */
    void sent(long id) {
        if (state == WORKING) {
            if (!linked) {
                send.log(id);
            } else if (links != null || send.keeps(id)) {
                send.logMade(current, id, links());
            }
        } else if (!hasInput) {
            send.log(id);
        } else {
            unlinked().log(id);
        }
    }

    private Channel links() {
        Channel c = links;
        return c != null ? c : (links = Points.openLinks(name + "/links"));
    }

    private Channel unlinked() {
        Channel c = unlinked;
        return c != null ? c : (unlinked = Points.open(name + "/unlinked", false));
    }

    /** The task takes a record, and begins to work on it. So all interruptions are over. */
    void work(long id) {
        current = id;
        state = WORKING;
        recv.log(id);
    }

    /** The task takes an element that has no id. */
    void pass() {
        state = IDLE;
    }

    /** The task has finished its work on the element. */
    void finish() {
        if (state == WORKING) {
            state = IDLE;
            end.log(current);
        }
    }

    /** Something else runs on the task's thread, perhaps while it works on a record. */
    void interrupt() {
        state += INTERRUPTED;
    }

    void resume() {
        if (state >= INTERRUPTED) {
            state -= INTERRUPTED;
        }
    }
}
