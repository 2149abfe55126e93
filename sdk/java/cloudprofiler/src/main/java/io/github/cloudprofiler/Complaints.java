package io.github.cloudprofiler;

import java.util.HashSet;
import java.util.Set;

/** Says on System.err what does not work, each thing once. */
final class Complaints {
    private static final int MOST = 100; // a program may open channels in a loop

    private static final Set<String> said = new HashSet<>(); // protected by its own lock

    private Complaints() {}

    static void once(String what) {
        synchronized (said) {
            if (said.size() >= MOST || !said.add(what)) {
                return;
            }
        }
        System.err.println("cloudprofiler: " + what + ". The program runs on without it.");
    }
}
