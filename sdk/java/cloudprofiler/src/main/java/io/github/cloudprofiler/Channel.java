package io.github.cloudprofiler;

import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;

/**
 * A named place in a program where events are logged.
 *
 * <pre>{@code
 * static final Channel start = Channel.open("parser#0/start");
 * ...
 * start.log(tuple.id());
 * }</pre>
 *
 * <p>A log call reads the counter once and stores one record in shared memory. It allocates
 * nothing, takes no lock and makes no system call. If the handler discards the event, the call ends
 * in Java. The record stays in shared memory until the node's agent takes it, even if the JVM dies.
 *
 * <p><b>Threads.</b> A channel of {@link #open open} is for one thread at a time. Another thread
 * may take the channel over if all calls of the first thread happen before its own calls, in the
 * sense of the Java memory model. A channel of {@link #openShared openShared} is for any number of
 * threads. All threads may call {@link #dropped}, {@link #error}, {@link #path}, {@link #snapshot}
 * and {@link #close}. All this holds for virtual threads, too. A virtual thread that waits for room
 * in a full ring keeps its carrier thread.
 *
 * <p><b>Failure.</b> No method throws an exception because of the environment. If a channel cannot
 * be opened, it is a no-op, {@link #error} says why, and a line on System.err says so once.
 *
 * <p><b>End.</b> A program need not close its channels: the agent notices when the JVM ends. So log
 * calls work in shutdown hooks. A call on a closed channel does nothing. If a channel becomes
 * unreachable, it is closed when the program next opens or closes a channel, or when the class
 * loader of this class is unloaded.
 */
public final class Channel implements AutoCloseable {
    /** The tuple id that ends a stream: the handler first-last notes when it was logged. */
    public static final long POISON = -1;

    private final ByteBuffer word; // a view of the ring's switching word
    private final long wordAddress;
    private final long address; // 0: there is no ring
    private final boolean shared;
    private final boolean links; // opened with the handler link
    private final String path;
    private final String error;
    private final Reaper.Claim claim;

    private Rule rule = Rule.NOTHING;

    private Channel(long address, boolean shared, boolean links) {
        this.address = address;
        this.shared = shared;
        this.links = links;
        this.error = null;
        path = new String(Native.path(address), StandardCharsets.UTF_8);
        word = Native.word(address);
        wordAddress = Native.wordAddress(address);
        claim = Reaper.claim(this, address);
        rule();
    }

    private Channel(String error) {
        this.error = error;
        address = 0;
        shared = false;
        links = false;
        path = "";
        word = Word.ZERO;
        wordAddress = Word.ZERO_ADDRESS;
        claim = null;
    }

    /** Opens a channel for one thread at a time, with the default options. */
    public static Channel open(String name) {
        return open(name, new Options());
    }

    /**
     * Opens a channel for one thread at a time. The name is actor[#instance]/point. The analysis
     * gives a meaning to the points start, end, send and recv.
     */
    public static Channel open(String name, Options options) {
        return open(name, options, false);
    }

    /**
     * Opens a channel for any number of threads. Its log call costs more, by about a third of a
     * counter reading.
     */
    public static Channel openShared(String name, Options options) {
        return open(name, options, true);
    }

    private static Channel open(String name, Options o, boolean shared) {
        String refusal = Library.refusal();
        if (refusal != null) {
            return new Channel("open channel: " + refusal);
        }
        Reaper.reap();
        long period_ns;
        try {
            period_ns = o.period == null ? 0 : o.period.toNanos();
        } catch (ArithmeticException e) {
            period_ns = -1; // it is refused
        }
        long[] numbers = {o.n, o.x, o.y, period_ns, o.bufferBytes};
        byte[][] why = new byte[1][];
        long address = Native.open(Texts.bytes(name), Texts.bytes(o.handler), numbers,
                Texts.bytes(o.policy), Texts.bytes(o.stamp), Texts.bytes(o.dir), shared, why);
        if (address != 0) {
            return new Channel(address, shared, "link".equals(o.handler));
        }
        String error = Texts.string(why[0], "open channel: no memory");
        Complaints.once(error);
        return new Channel(error);
    }

    /**
     * Logs an event: the present counter, and the tuple's id. The channel's handler decides whether
     * to keep the event.
     */
    public void log(long id) {
        if (!keeps(id)) {
            return;
        }
        try {
            if ((int) Calls.LOG.invokeExact(address, id) != 0) {
                Native.keep(address, id, 0, 1, 0);
            }
        } catch (Throwable e) {
            throw Calls.impossible(e);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Logs an event with a given stamp: the moment at which something was due, or a reading of
     * {@link #counter} that the program has already made. The stamp must be a positive value of
     * this node's counter, and the channel must be from {@link #open open}. Otherwise the call
     * keeps nothing. Unless the channel has the handler "null", the agent reports such calls.
     */
    public void logAt(long counter, long id) {
        Rule r = rule();
        if (r.idle() || !shared && counter > 0 && !r.keeps(id)) {
            return;
        }
        try {
            if ((int) Calls.LOG_AT.invokeExact(address, counter, id) != 0) {
                Native.keep(address, id, 0, 1, counter);
            }
        } catch (Throwable e) {
            throw Calls.impossible(e);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Keeps the pair of a parent's id and a child's id. The channel must have the handler link.
     */
    public void link(long parent, long child) {
        if (rule().idle()) {
            return;
        }
        try {
            if ((int) Calls.LINK.invokeExact(address, parent, child) != 0) {
                Native.keep(address, parent, child, 2, 0);
            }
        } catch (Throwable e) {
            throw Calls.impossible(e);
        } finally {
            Reference.reachabilityFence(this);
        }
    }

    /**
     * Logs a child's id to this channel, and logs the pair of the parent's and the child's id to
     * the channel links, which must have the handler link. If {@link #keeps} is false for the
     * child, this does nothing. Otherwise it does the same as {@link #log} and {@link #link}, but
     * reads the counter only once.
     */
    public void logMade(long parent, long child, Channel links) {
        if (!keeps(child)) {
            return;
        }
        if (shared || !links.links || links.rule().idle()) {
            log(child);
            links.link(parent, child);
            return;
        }
        try {
            int missed = (int) Calls.MADE.invokeExact(address, links.address, parent, child);
            if (missed != 0) {
                keep(missed, parent, child, links);
            }
        } catch (Throwable e) {
            throw Calls.impossible(e);
        } finally {
            Reference.reachabilityFence(this);
            Reference.reachabilityFence(links);
        }
    }

    private void keep(int missed, long parent, long child, Channel links) {
        if ((missed & 1) != 0) { // CP_NOT_LOGGED of hurried.h
            Native.keep(address, child, 0, 1, 0);
        }
        if ((missed & 2) != 0) { // CP_NOT_LINKED of hurried.h
            Native.keep(links.address, parent, child, 2, 0);
        }
    }

    /**
     * Returns whether the present handler may keep an event with this id. If not, a log call would
     * discard the event: the handler is "null", or it is xoy and does not keep this id, or the
     * channel is a no-op. This takes about a nanosecond, because it makes no native call.
     */
    public boolean keeps(long id) {
        return rule().keeps(id);
    }

    /** Returns the rule of the present settings. If these are new, the channel adopts them. */
    private Rule rule() {
        Rule r = rule;
        // The call of adopt keeps this channel, and so the word's memory, reachable until here.
        return Word.load(word, wordAddress) == r.word ? r : adopt();
    }

    private Rule adopt() {
        // A channel without a ring never comes here. A closed one adopts zeros: the handler null.
        long[] settings = new long[4];
        Native.adopt(address, settings);
        Reference.reachabilityFence(this);
        Rule r = new Rule(settings[0], settings[1], settings[2], settings[3]);
        rule = r;
        return r;
    }

    /** Returns why the channel is a no-op, or null if it opened. */
    public String error() {
        return error;
    }

    /** Returns the path of the ring's file, or "" if the channel did not open. */
    public String path() {
        return path;
    }

    /**
     * Returns the number of events that found no room in the ring since the channel was opened. The
     * log will say that these events are missing. For a channel that is a no-op or closed, it is 0.
     */
    public long dropped() {
        long n = address == 0 ? 0 : Native.dropped(address);
        Reference.reachabilityFence(this);
        return n;
    }

    /**
     * Asks the agents of all nodes to write the contents of their flight recorders to the logs, and
     * returns at once. A program can ask on any of its channels. The agent checks for requests
     * several times a second, so a flight recorder should have room for at least a second.
     */
    public void snapshot() {
        if (address != 0) {
            Native.snapshot(address);
        }
        Reference.reachabilityFence(this);
    }

    /** Ends logging to the channel. The agent then takes the remaining records. */
    @Override
    public void close() {
        if (claim != null) {
            claim.end();
        }
        Reaper.reap();
        Reference.reachabilityFence(this);
    }

    /**
     * Reads this node's counter, after all earlier instructions have executed. Without the native
     * library, the result is 0.
     */
    public static long counter() {
        if (Library.refusal() != null) {
            return 0;
        }
        try {
            return (long) Calls.COUNTER.invokeExact();
        } catch (Throwable e) {
            throw Calls.impossible(e);
        }
    }
}
