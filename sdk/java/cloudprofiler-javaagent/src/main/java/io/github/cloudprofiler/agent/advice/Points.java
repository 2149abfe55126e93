package io.github.cloudprofiler.agent.advice;

import io.github.cloudprofiler.Channel;
import io.github.cloudprofiler.Options;

/** Opens the channels to which the advices log, with the options that the user configured. */
public final class Points {
    /** Which ids are kept: those with id mod y below x. If x equals y, all are kept. */
    public record Keep(long x, long y) {}

    private static volatile Keep keep = new Keep(1, 1);
    private static volatile String policy;
    private static volatile String dir;

    private Points() {}

    /** Sets what all channels have in common. A null stands for the library's default. */
    public static void configure(Keep all, String fullRing, String directory) {
        keep = all;
        policy = fullRing;
        dir = directory;
    }

    /** Turns an engine's name of an operator into one that channel names permit. */
    static String actor(String text) {
        String name = text.replaceAll("[^A-Za-z0-9_.-]+", "_").replaceAll("^[._]+|_+$", "");
        return name.isEmpty() ? "unnamed" : name.substring(0, Math.min(name.length(), 96));
    }

    static Channel open(String name, boolean manyThreads) {
        return open(name, manyThreads, keep);
    }

    static Channel open(String name, boolean manyThreads, Keep which) {
        Options o = options();
        if (which.x < which.y) {
            o = o.handler("xoy").x(which.x).y(which.y);
        }
        return manyThreads ? Channel.openShared(name, o) : Channel.open(name, o);
    }

    static Channel openLinks(String name) {
        return Channel.open(name, options().handler("link"));
    }

    /** Opens a channel that only counts, for any number of threads. */
    static Channel openCount(String name) {
        return Channel.openShared(name, options().handler("counter"));
    }

    /** Opens a channel that keeps every id while its ring has room, and never waits. */
    public static Channel openAll(String name) {
        return Channel.open(name, options().policy("drop"));
    }

    /** Returns whether every id is kept. Only then does every link have both of its ends. */
    static boolean keepsAll() {
        return keep.x == keep.y;
    }

    private static Options options() {
        Options o = new Options();
        if (policy != null) {
            o = o.policy(policy);
        }
        if (dir != null) {
            o = o.dir(java.nio.file.Path.of(dir));
        }
        return o;
    }
}
