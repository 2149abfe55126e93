package io.github.cloudprofiler.agent;

import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/** Prints lines on standard error, each only once. */
public final class Say {
    private static final Set<String> SAID = ConcurrentHashMap.newKeySet();

    private Say() {}

    /** Prints a line, unless it was printed before. */
    public static void once(String line) {
        if (SAID.size() < 1000 && SAID.add(line)) {
            System.err.println("cloudprofiler: " + line);
        }
    }

    /** Woven code calls this if a joinpoint threw something, and so its set was switched off. */
    public static void failed(String joinpoint, String set, Throwable why) {
        try {
            once(joinpoint + " failed: " + set + " is off now, and the program goes on without it: "
                    + why);
        } catch (Throwable t) { // for example, there is no memory: nothing more can be done
        }
    }
}
