package io.github.cloudprofiler.agent;

import java.util.Arrays;

/**
 * Which sets of joinpoints are off. A set goes off as a whole: where elements are counted, a hook
 * that misses one would give its id to the next, and a wrong match is worse than none.
 */
public final class Switches {
    /**
     * By the number of the set. Woven code reads and writes it without a call, so that this works
     * at the end of a thread's stack, too. A thread may see another's write late; each output and
     * each input is one thread's.
     */
    public static boolean[] off = {};

    private Switches() {}

    /** Returns the number of a new set, which is on. */
    static synchronized int add() {
        off = Arrays.copyOf(off, off.length + 1);
        return off.length - 1;
    }
}
