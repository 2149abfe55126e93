package io.github.cloudprofiler;

import java.nio.file.Path;
import java.time.Duration;

/**
 * How to open a channel. Options do not change: each method returns new ones.
 *
 * <p>By default a channel keeps every event, compressed, and loses none while an agent runs. The
 * words are those of the handler table, and of the libraries for Go and C. The options are checked
 * when a channel is opened.
 */
public final class Options implements Cloneable {
    String handler;
    long n;
    long x;
    long y;
    Duration period;
    String policy;
    String stamp;
    long bufferBytes;
    String dir;

    /** The default options. */
    public Options() {}

    /**
     * What the channel does with an event: id, buffered, counter, downsample, xoy, first-last, link
     * or null (the word, in quotes). The default is buffered. The node's handler table may change
     * the handler while the program runs.
     */
    public Options handler(String handler) {
        Options o = copy();
        o.handler = handler;
        return o;
    }

    /** For the handler downsample: keep the first of every n events. */
    public Options n(long n) {
        Options o = copy();
        o.n = n;
        return o;
    }

    /** For the handler xoy: keep an event if id mod y is below x. The id has no sign. */
    public Options x(long x) {
        Options o = copy();
        o.x = x;
        return o;
    }

    /** For the handler xoy: see {@link #x}. */
    public Options y(long y) {
        Options o = copy();
        o.y = y;
        return o;
    }

    /** For the handler counter: how often the count is written. The default is a second. */
    public Options period(Duration period) {
        Options o = copy();
        o.period = period;
        return o;
    }

    /**
     * What happens when the ring is full:
     *
     * <ul>
     *   <li>block, the default: wait for the agent. If the agent takes nothing for a second, all
     *       channels drop events and count them, until the agent takes records again;
     *   <li>drop: drop events and count them;
     *   <li>overwrite: keep only the last records. The channel is a flight recorder.
     * </ul>
     */
    public Options policy(String policy) {
        Options o = copy();
        o.policy = policy;
        return o;
    }

    /**
     * The instruction that reads the counter: rdtscp, the default, or rdtsc. rdtsc costs half as
     * much, but its reading may be early or late by up to 2000 cycles.
     */
    public Options stamp(String stamp) {
        Options o = copy();
        o.stamp = stamp;
        return o;
    }

    /**
     * The size of the memory for records. A record takes 16 bytes, and the number of records is
     * rounded up to a power of two. The default, 0, is 1 MiB.
     */
    public Options bufferBytes(long bytes) {
        Options o = copy();
        o.bufferBytes = bytes;
        return o;
    }

    /**
     * The directory of the node's rings. The default is the environment variable
     * CLOUDPROFILER_DIR or, if that is not set, this user's directory in /dev/shm.
     */
    public Options dir(Path dir) {
        Options o = copy();
        o.dir = dir == null ? null : dir.toString();
        return o;
    }

    private Options copy() {
        try {
            return (Options) super.clone();
        } catch (CloneNotSupportedException e) {
            throw new AssertionError(e); // this class is Cloneable
        }
    }
}
