package io.github.cloudprofiler.agent.advice;

import java.nio.charset.StandardCharsets;

/**
 * Ids for records that have none. The records of a queue come out in the order in which they went
 * in. So both ends count them, and an id is the sum of the count and a hash of the queue's name.
 * Two queues may have ids in common. With n queues of up to m records each, the probability of this
 * is below n²·m / 2⁶⁴.
 */
final class Ordinals {
    private Ordinals() {}

    /** Returns the id of the first record of a queue. */
    static long first(String queue) {
        long h = 0xcbf29ce484222325L; // FNV-1a, then the finalizer of SplitMix64
        for (byte b : queue.getBytes(StandardCharsets.UTF_8)) {
            h = (h ^ (b & 0xff)) * 0x100000001b3L;
        }
        h = (h ^ h >>> 30) * 0xbf58476d1ce4e5b9L;
        h = (h ^ h >>> 27) * 0x94d049bb133111ebL;
        return h ^ h >>> 31;
    }
}
