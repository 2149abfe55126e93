package io.github.cloudprofiler.agent;

import io.github.cloudprofiler.Channel;
import io.github.cloudprofiler.MemoryLines;
import io.github.cloudprofiler.agent.advice.Points;
import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;

/**
 * Logs when this JVM stops all threads: for garbage collections, and for other operations. The JVM
 * writes its own log of safepoints into memory, and a thread turns it into events (FORMAT.md).
 */
final class Pauses {
    /** The last word of the channel's name, by which the analysis recognises the channel. */
    static final String POINT = "jvm-pauses";

    private static final long PERIOD_MS = 20;
    private static final long WIDE_NS = 2_000;
    private static final long PATIENCE_NS = 1_000_000_000;

    private final ClockMap clocks = new ClockMap(System::nanoTime, MemoryLines::counter);
    private final PauseLines log = new PauseLines();
    private final ArrayDeque<PauseLines.Pause> waiting = new ArrayDeque<>();
    private final Diagnostics diagnostics;
    private final MemoryLines lines;
    private Channel channel; // null until somebody has tried to open it
    private long ordinal;
    private long held_since_ns;

    private Pauses(Instrumentation instrumentation)
            throws IOException, ReflectiveOperationException {
        diagnostics = new Diagnostics(instrumentation);
        lines = new MemoryLines();
        clocks.look();
        clocks.look(); // only a time after two looks can be translated
        give(PauseLines.LOG + " output_options=filecount=0");
    }

    private void give(String what) throws IOException, ReflectiveOperationException {
        String answer =
                diagnostics.give("VM.log output=file=" + lines.path() + " " + what);
        if (!answer.isBlank()) {
            throw new IOException(answer.strip());
        }
    }

    /**
     * Starts to log. The JVM's own log begins at once, before the new thread starts: while the
     * program starts, the JVM stops often, and the new thread may have to wait. Only the new thread
     * opens the channel, because that takes longer.
     */
    static void begin(Instrumentation instrumentation) {
        try {
            Pauses p = new Pauses(instrumentation);
            Runtime.getRuntime().addShutdownHook(new Thread(p::last, "cloudprofiler-last"));
            Thread t = new Thread(p::follow, "cloudprofiler-pauses");
            t.setDaemon(true);
            t.start();
        } catch (IOException | ReflectiveOperationException | RuntimeException | LinkageError e) {
            Say.once("log pauses: " + e + "; the program runs without this log");
        }
    }

    private void follow() {
        try {
            while (step(false)) {
                Thread.sleep(PERIOD_MS);
            }
        } catch (InterruptedException e) {
            // Somebody wants this thread to end.
        } catch (IOException | ReflectiveOperationException | RuntimeException e) {
            Say.once("log pauses: " + e + "; the program runs on without this log");
        }
    }

    private void last() {
        try {
            step(true);
        } catch (IOException | ReflectiveOperationException | RuntimeException e) {
            // The JVM ends: nobody reads more.
        }
    }

    private void open() throws IOException, ReflectiveOperationException {
        channel = Points.openAll("jvm-" + ProcessHandle.current().pid() + "/" + POINT);
        if (channel.error() != null) { // it has said why
            give("what=all=off");
            lines.close();
        }
    }

    /** Logs the pauses that have ended. Returns false if there is no channel for them. */
    private synchronized boolean step(boolean last)
            throws IOException, ReflectiveOperationException {
        if (channel == null) {
            open();
        }
        if (channel.error() != null) {
            return false;
        }
        int before = log.held();
        lines.read(log::take);
        clocks.look(); // after reading the lines, so that all of their pauses are before this look
        long now_ns = System.nanoTime();
        if (before == 0) {
            held_since_ns = now_ns;
        }
        // The first pauses are logged late, because later pauses show more exactly when the first
        // pauses were.
        if (last || log.width_ns() <= WIDE_NS || now_ns - held_since_ns > PATIENCE_NS) {
            waiting.addAll(log.pauses());
        }
        while (!waiting.isEmpty() && clocks.reaches(waiting.peek().end_ns())) {
            log(waiting.poll());
        }
        return true;
    }

    private void log(PauseLines.Pause p) {
        long number = ordinal++;
        int kind = PauseKinds.of(p.operation());
        long[] times_ns = {p.begin_ns(), p.stopped_ns(), p.end_ns()};
        List<ClockMap.Moment> moments = new ArrayList<>();
        for (long ns : times_ns) {
            ClockMap.Moment m = clocks.at(ns, p.bound_ns());
            if (m == null) {
                return; // before the first looks. The missing number shows that a pause is missing
            }
            moments.add(m);
        }
        for (int i = 0; i < moments.size(); i++) {
            ClockMap.Moment m = moments.get(i);
            channel.logAt(m.at_cycles(), id(number, m.bound_cycles(), i, kind));
        }
    }

    /** The largest bound that fits into an id. It also stands for all larger bounds. */
    static final int MOST_BOUND_CYCLES = 0xFFFF;

    static long id(long number, double bound_cycles, int moment, int kind) {
        long bound = (long) Math.min(Math.ceil(bound_cycles), MOST_BOUND_CYCLES);
        return number << 32 | bound << 16 | (long) moment << 8 | kind;
    }
}
