package io.github.cloudprofiler.agent;

import java.util.ArrayDeque;
import java.util.function.LongSupplier;

/**
 * Translates times of the JVM's clock, System.nanoTime, into readings of the counter. A look reads
 * the clock once, and finds two limits of the counter at that moment. A time between two looks is
 * interpolated. Its bound assumes that the kernel changes the rate of its clock at most once during
 * three consecutive looks.
 */
final class ClockMap {
    private static final int TRIES = 16;
    private static final int MOST_LOOKS = 1024;

    /** At some moment, the clock showed ns and the counter was between lo and hi. */
    private record Look(long ns, long lo_cycles, long hi_cycles) {
        double mid_cycles() {
            return (hi_cycles - lo_cycles) / 2.0;
        }
    }

    /** A reading of the counter, and how far the true reading may be from it. */
    record Moment(long at_cycles, double bound_cycles) {}

    private final LongSupplier clock_ns;
    private final LongSupplier counter_cycles;
    private final ArrayDeque<Look> looks = new ArrayDeque<>();

    ClockMap(LongSupplier clock_ns, LongSupplier counter_cycles) {
        this.clock_ns = clock_ns;
        this.counter_cycles = counter_cycles;
    }

    /** Looks at both clocks several times, and keeps the narrowest look. */
    void look() {
        Look best = null;
        for (int i = 0; i < TRIES; i++) {
            long lo = counter_cycles.getAsLong();
            long ns = clock_ns.getAsLong();
            long hi = counter_cycles.getAsLong();
            if (best == null || hi - lo < best.hi_cycles - best.lo_cycles) {
                best = new Look(ns, lo, hi);
            }
        }
        if (looks.isEmpty() || best.ns > looks.getLast().ns) {
            looks.add(best);
        }
        if (looks.size() > MOST_LOOKS) {
            looks.removeFirst();
        }
    }

    /** Returns whether there is a look at or after the given time. Without one, the time cannot be
     * translated yet. */
    boolean reaches(long ns) {
        return !looks.isEmpty() && ns <= looks.getLast().ns;
    }

    /**
     * Translates a time that is known to within bound_ns. Returns null unless the time is between
     * two looks, and there is a third look before them.
     */
    Moment at(long ns, double bound_ns) {
        Look before = null;
        Look from = null;
        for (Look to : looks) {
            if (from != null && before != null && from.ns <= ns && ns <= to.ns) {
                return between(before, from, to, ns, bound_ns);
            }
            before = from;
            from = to;
        }
        return null;
    }

    private static Moment between(Look before, Look from, Look to, long ns, double bound_ns) {
        double rate = rate(from, to);
        double bend = Math.abs(rate - rate(before, from)) * (to.ns - from.ns);
        double width = Math.max(from.hi_cycles - from.lo_cycles, to.hi_cycles - to.lo_cycles) / 2.0;
        long at = from.lo_cycles
                + Math.round(from.mid_cycles() + rate * (ns - from.ns));
        return new Moment(at, width + bend + rate * bound_ns + 1);
    }

    private static double rate(Look a, Look b) {
        return (b.lo_cycles - a.lo_cycles + b.mid_cycles() - a.mid_cycles()) / (b.ns - a.ns);
    }
}
