package io.github.cloudprofiler.programs;

import java.util.ArrayDeque;

/** Makes the JVM stop often: it allocates, and asks for all stacks. Arguments: seconds. */
public final class Pauser {
    private static volatile Object latest;

    private Pauser() {}

    /** Runs. */
    public static void main(String[] args) throws InterruptedException {
        ArrayDeque<byte[]> kept = new ArrayDeque<>();
        long end_ns = System.nanoTime() + (long) (Double.parseDouble(args[0]) * 1e9);
        for (long n = 0; System.nanoTime() < end_ns; n++) {
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
        System.out.println("allocated " + latest);
        Thread.sleep(200); // pauses at the very end are not logged
    }
}
