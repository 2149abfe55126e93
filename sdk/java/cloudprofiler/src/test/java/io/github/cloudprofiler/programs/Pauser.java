package io.github.cloudprofiler.programs;

import java.util.ArrayDeque;

/**
 * Makes the JVM stop often: it allocates, and asks for all stacks. It prints nanoTime when it
 * begins and when it ends. The argument is a number of seconds. On a slow machine the program runs
 * longer, until the JVM has stopped often enough.
 */
public final class Pauser {
    private static volatile Object latest;

    private Pauser() {}

    /** Runs. */
    public static void main(String[] args) throws InterruptedException {
        System.out.println("begins at " + System.nanoTime());
        ArrayDeque<byte[]> kept = new ArrayDeque<>();
        long end_ns = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        for (long n = 0; System.nanoTime() < end_ns || n < 900_000; n++) {
            byte[] bytes = new byte[1000];
            latest = bytes;
            if (n % 200 == 0) {
                kept.add(bytes);
                if (kept.size() > 20_000) {
                    kept.removeFirst();
                }
            }
            if (n % 30_000 == 0) {
                latest = Thread.getAllStackTraces();
            }
        }
        Thread.sleep(200);
        System.out.println("ends at " + System.nanoTime() + ", allocated " + latest);
    }
}
