package io.github.cloudprofiler.programs;

import io.github.cloudprofiler.Channel;
import io.github.cloudprofiler.Options;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;

/**
 * Answers each line of input with the cost of one call, so that "cp-bench java" can measure the C
 * library between two answers. "log" asks for the nanoseconds of a log call, "off" for those of a
 * call that is switched off, and "unsampled" for those of a call whose id is not sampled.
 * "allocated" asks for the bytes that a call allocates.
 */
public final class Bench {
    private static final int CALLS = 100_000;
    private static final int WARM_UP = 200; // turns, after which the JIT has nothing left to do

    private static final Options RING = new Options().handler("id").policy("overwrite");
    private static final Channel log = opened("log", RING);
    private static final Channel off = opened("off", new Options().handler("null"));
    private static final Channel sampled = opened("sampled",
            new Options().handler("xoy").x(2).y(1024).policy("overwrite"));

    private Bench() {}

    private static Channel opened(String point, Options options) {
        Channel c = Channel.open("bench/" + point, options);
        if (c.error() != null) {
            throw new IllegalStateException(c.error());
        }
        return c;
    }

    public static void main(String[] args) throws IOException {
        for (int i = 0; i < WARM_UP; i++) {
            log();
            off();
            unsampled();
        }
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        System.out.println("ready");
        for (String order; (order = orders.readLine()) != null; ) {
            System.out.println(measure(order));
        }
    }

    private static double measure(String order) {
        switch (order) {
            case "log":
                return log();
            case "off":
                return off();
            case "unsampled":
                return unsampled();
            case "allocated":
                return allocated();
            default:
                throw new IllegalArgumentException(order);
        }
    }

    private static double log() {
        long start = System.nanoTime();
        for (int i = 0; i < CALLS; i++) {
            log.log(i);
        }
        return (double) (System.nanoTime() - start) / CALLS;
    }

    private static double off() {
        long start = System.nanoTime();
        for (int i = 0; i < 10 * CALLS; i++) {
            off.log(i);
        }
        return (double) (System.nanoTime() - start) / (10 * CALLS);
    }

    private static double unsampled() {
        long start = System.nanoTime();
        for (int i = 0; i < 10 * CALLS; i++) {
            sampled.log((long) i << 10 | 2 + (i & 511)); // never 0 or 1 mod 1024
        }
        return (double) (System.nanoTime() - start) / (10 * CALLS);
    }

    private static double allocated() {
        com.sun.management.ThreadMXBean threads =
                (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long thread = Thread.currentThread().getId();
        long before = threads.getThreadAllocatedBytes(thread);
        log();
        off();
        unsampled();
        // Reading the number of bytes may itself allocate a little.
        return Math.floor((double) (threads.getThreadAllocatedBytes(thread) - before) / CALLS);
    }
}
