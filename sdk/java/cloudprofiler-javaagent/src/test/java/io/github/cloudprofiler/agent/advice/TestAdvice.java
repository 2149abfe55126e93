package io.github.cloudprofiler.agent.advice;

import java.util.ArrayList;
import java.util.List;

/** An advice that notes what it is given. */
public final class TestAdvice {
    public static final List<String> SEEN = new ArrayList<>();
    public static Error thrown;

    private TestAdvice() {}

    public static void see(long a, long b, long c) {
        if (thrown != null) {
            throw thrown;
        }
        SEEN.add(a + " " + b + " " + c);
    }

    public static Object make(int number) {
        return "state " + number;
    }

    public static void keep(Object state) {
        SEEN.add(state.toString());
    }
}
