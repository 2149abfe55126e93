package io.github.cloudprofiler.agent;

import java.util.Arrays;

/**
 * Which sets of joinpoints are off. A set is switched off as a whole, because some ids are counts.
 * If one joinpoint missed a record of the engine, the next record would get the id of the missed
 * record. A wrong match is worse than none.
 */
public final class Switches {
    /**
     * Says for each set, by the set's number, whether it is off. Woven code reads and writes this
     * array without a call, so this works even if a thread's stack is nearly full. A thread may see
     * the write of another thread late. That does no harm, because only one thread uses an output
     * or an input.
     */
    public static boolean[] off = {};

    private Switches() {}

    /** Returns the number of a new set, which is on. */
    static synchronized int add() {
        off = Arrays.copyOf(off, off.length + 1);
        return off.length - 1;
    }
}
