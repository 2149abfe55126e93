package io.github.cloudprofiler;

import java.nio.file.Path;

/**
 * Makes tuple ids that no other program makes, whether it is in Java, C or Go. An id consists of
 * the node's number, an instance number that no other program on this node has, and a count. The
 * count begins above all counts that earlier programs with that instance number may have used.
 *
 * <p>All threads may use the same ids. The threads then take turns.
 */
public final class Ids implements AutoCloseable {
    /** What {@link #next} returns if it makes no id. No id has this value. */
    public static final long NONE = Channel.POISON;

    /** Chooses a free instance number. */
    public static final int ANY_INSTANCE = -1;

    private final String error;
    private final boolean randomNode;
    private long address; // 0: there are none, or they are closed

    private Ids(long address, String error) {
        this.address = address;
        this.error = error;
        randomNode = address != 0 && Native.randomNode(address);
    }

    /** Opens ids in the default directory, with any instance number. */
    public static Ids open() {
        return open(null, ANY_INSTANCE);
    }

    /**
     * Opens ids with an instance number from 0 to 1023, or {@link #ANY_INSTANCE}. The number is
     * reserved until {@link #close} or the end of the JVM. The directory is as in {@link Options}.
     */
    public static Ids open(Path dir, int instance) {
        String refusal = Library.refusal();
        if (refusal != null) {
            return new Ids(0, "open ids: " + refusal);
        }
        byte[][] why = new byte[1][];
        long address = Native.openIds(Texts.bytes(dir == null ? null : dir.toString()), instance,
                why);
        if (address != 0) {
            return new Ids(address, null);
        }
        String error = Texts.string(why[0], "open ids: no memory");
        Complaints.once(error);
        return new Ids(0, error);
    }

    /**
     * Makes an id, or returns {@link #NONE}: if the ids did not open or are closed, if this
     * instance has made all of its 2^40 ids, or if the instance's file cannot be written.
     */
    public synchronized long next() {
        return address == 0 ? NONE : Native.nextId(address);
    }

    /** Returns why the ids did not open, or null if they did. */
    public String error() {
        return error;
    }

    /**
     * Reports whether the node's number was chosen at random, because the directory had none. Among
     * n such nodes, the probability that two have the same number is about n²/32768. If that is too
     * high, give the nodes numbers.
     */
    public boolean randomNode() {
        return randomNode;
    }

    /** Releases the instance number. */
    @Override
    public synchronized void close() {
        if (address != 0) {
            Native.closeIds(address);
            address = 0;
        }
    }
}
