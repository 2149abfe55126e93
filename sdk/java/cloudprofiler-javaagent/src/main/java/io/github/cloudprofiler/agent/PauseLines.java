package io.github.cloudprofiler.agent;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Reads what the JVM logs of its safepoints, and says when each began and ended.
 *
 * <p>The line of a safepoint is written after its end, and has no stamp of the end. But the line
 * has the exact length of the safepoint, and the exact time since the previous safepoint. So the
 * safepoints of a JVM are a chain, and only the position of the whole chain in time is not known.
 * Each line bounds this position: the line's safepoint ended before the line's stamp, and began
 * after the stamp of an earlier line of the VM's thread. So all lines together show where the chain
 * is.
 */
final class PauseLines {
    /** The lines to log. Their decorator is a stamp: the JVM's own nanoTime. */
    static final String LOG = "what=safepoint=info,vmthread=debug decorators=tn";

    private static final Pattern LINE = Pattern.compile("\\[(\\d+)ns\\s*\\] ?(.*)");
    private static final Pattern BEFORE =
            Pattern.compile("(?:Executing|Evaluating) +safepoint VM operation: .*");
    private static final Pattern SAFEPOINT = Pattern.compile("Safepoint \"([^\"]*)\", (.*)");

    /** A pause, with three times of nanoTime: when it began, when all threads had stopped, and when
     * it ended. */
    record Pause(String operation, long begin_ns, long stopped_ns, long end_ns, double bound_ns) {}

    /** A link of the chain. Its times are relative to the chain. */
    private record Link(String operation, long begin_ns, long stopped_ns, long end_ns) {}

    /** What width_ns returns while the earliest position of the chain is not known. */
    private static final long UNBOUNDED_NS = 1_000_000_000;

    private final List<Link> held = new ArrayList<>();
    private final List<Pause> placed = new ArrayList<>(); // pauses whose times are known
    private boolean begun;
    private long end_ns; // of the last link
    private long least_ns; // the least to add to the chain's times
    private long most_ns; // the most to add to them
    private boolean bounded; // least_ns is known
    private long before_ns; // of the VM thread's last line before a safepoint
    private int broken;

    /** Reads a line, and returns whether the line added a pause. */
    boolean take(String text) {
        Matcher line = LINE.matcher(text);
        if (!line.matches()) {
            return false;
        }
        try {
            long at_ns = Long.parseLong(line.group(1));
            String message = line.group(2);
            if (BEFORE.matcher(message).matches()) {
                before_ns = at_ns;
                return false;
            }
            Matcher safepoint = SAFEPOINT.matcher(message);
            return safepoint.matches() && add(at_ns, safepoint.group(1), safepoint.group(2));
        } catch (NumberFormatException e) {
            return false;
        }
    }

    private boolean add(long at_ns, String operation, String parts) {
        long since_ns = part(parts, "Time since last: ");
        long reaching_ns = part(parts, "Reaching safepoint: ");
        long total_ns = part(parts, "Total: ");
        if (since_ns < 0 || reaching_ns < 0 || total_ns < reaching_ns) {
            return false;
        }
        if (begun && (end_ns + since_ns + total_ns + least_ns > at_ns && bounded
                || before_ns != 0 && end_ns + since_ns + most_ns < before_ns)) {
            // Lines are missing. The pauses so far keep their places, and another chain begins.
            broken++;
            begun = false;
        }
        if (!begun) {
            place();
            begun = true;
            bounded = false;
            end_ns = at_ns - since_ns - total_ns;
            most_ns = 0;
        }
        long begin_ns = end_ns + since_ns;
        end_ns = begin_ns + total_ns;
        most_ns = Math.min(most_ns, at_ns - end_ns);
        if (before_ns != 0 && (!bounded || before_ns - begin_ns > least_ns)) {
            least_ns = before_ns - begin_ns;
            bounded = true;
        }
        before_ns = 0;
        held.add(new Link(operation, begin_ns, begin_ns + reaching_ns, end_ns));
        return true;
    }

    /** Returns the distance between the earliest and the latest position of the chain. */
    long width_ns() {
        return bounded ? most_ns - least_ns : UNBOUNDED_NS;
    }

    /** Returns the pauses since the last call. */
    List<Pause> pauses() {
        place();
        List<Pause> all = List.copyOf(placed);
        placed.clear();
        return all;
    }

    /** Returns how many pauses the next call of pauses() will return. */
    int held() {
        return held.size() + placed.size();
    }

    /** Returns how often lines were missing. */
    int broken() {
        return broken;
    }

    private void place() {
        long add = bounded ? least_ns + (most_ns - least_ns) / 2 : most_ns;
        double bound_ns = width_ns() / 2.0 + 1;
        for (Link l : held) {
            placed.add(new Pause(l.operation, l.begin_ns + add, l.stopped_ns + add, l.end_ns + add,
                    bound_ns));
        }
        held.clear();
    }

    private static long part(String parts, String key) {
        int from = parts.indexOf(key);
        int to = from < 0 ? -1 : parts.indexOf(" ns", from);
        return to < 0 ? -1 : Long.parseLong(parts, from + key.length(), to, 10);
    }
}
