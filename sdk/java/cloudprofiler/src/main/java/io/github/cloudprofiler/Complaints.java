package io.github.cloudprofiler;

import java.util.HashSet;
import java.util.Set;

/** Says on System.err what does not work, each thing once. */
final class Complaints {
    private static final int MOST_LINES = 100; // a loop may open channels, each with its own error

    private static final Set<String> said = new HashSet<>(); // protected by its own lock

    private Complaints() {}

    static void once(String what) {
        synchronized (said) {
            if (said.size() >= MOST_LINES || !said.add(what)) {
                return;
            }
        }
        System.err.println("cloudprofiler: " + what + ". The program runs on without it.");
    }
}
