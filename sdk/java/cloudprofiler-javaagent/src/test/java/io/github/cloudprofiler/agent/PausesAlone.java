package io.github.cloudprofiler.agent;

import io.github.cloudprofiler.agent.advice.Points;
import java.lang.instrument.Instrumentation;

/** An agent that logs pauses and nothing else: it needs no other library. */
public final class PausesAlone {
    private PausesAlone() {}

    /** Starts the agent. The argument is the directory of the rings. */
    public static void premain(String directory, Instrumentation instrumentation) {
        NativeAccess.allow(instrumentation);
        Points.configure(new Points.Keep(1, 1), null, directory);
        Pauses.begin(instrumentation);
    }
}
