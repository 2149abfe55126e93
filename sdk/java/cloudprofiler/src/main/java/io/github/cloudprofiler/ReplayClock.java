package io.github.cloudprofiler;

/**
 * A replay clock: its stamps show which events causality or time orders, and which could have
 * happened in either order. Package replay/clock of the Go module explains the clock, and its
 * FORMAT.md the bytes of a stamp, which are the same in Go.
 *
 * <p>A stamp here only holds processes with numbers below 64. One thread at a time may use a clock.
 */
public final class ReplayClock {
    private final int process;
    private final long epsilon;
    private final Stamp now = new Stamp();
    private final Stamp next = new Stamp();
    private long broken;

    /**
     * Makes the clock of a process.
     *
     * @param process from 0 to 63
     * @param epsilon by how many epochs two clocks may differ; the same for all processes
     */
    public ReplayClock(int process, long epsilon) {
        if (process < 0 || process > 63) {
            throw new IllegalArgumentException("make replay clock: process " + process
                    + " is not from 0 to 63");
        }
        this.process = process;
        this.epsilon = Math.max(epsilon, 1);
    }

    /** The stamp of the last event. The next event changes it. */
    public Stamp stamp() {
        return now;
    }

    /** The number of events at which clocks must have differed by more than epsilon. */
    public long broken() {
        return broken;
    }

    /** The event of sending a message. The message must carry the stamp. */
    public void send(long epoch) {
        local(epoch);
    }

    /** An event that receives no message. */
    public void local(long epoch) {
        long reached = Math.max(now.max, epoch);
        long known = now.epoch(process, epsilon);
        long own = Math.max(epoch, known);
        if (epoch < reached - epsilon) {
            broken++;
        }
        if (reached == now.max && own == known) {
            now.put(process, known, now.counter(process) + 1, epsilon);
            return;
        }
        now.max = reached;
        for (long left = now.held; left != 0; left &= left - 1) {
            int k = Long.numberOfTrailingZeros(left);
            now.put(k, now.epochs[k], 0, epsilon);
        }
        now.put(process, own, 0, epsilon);
    }

    /**
     * The event of receiving a message.
     *
     * @return false if clocks must have differed by more than epsilon
     */
    public boolean receive(long epoch, Stamp m) {
        long reached = Math.max(Math.max(now.max, m.max), epoch);
        long floor = reached - epsilon;
        boolean mine = now.max == reached;
        boolean theirs = m.max == reached;
        boolean fine = epoch >= floor;
        if (!fine) {
            broken++;
        }
        long all = now.held | m.held | 1L << process;
        next.max = reached;
        next.held = 0;
        for (long left = all; left != 0; left &= left - 1) {
            int k = Long.numberOfTrailingZeros(left);
            long x = Math.max(floor, now.epoch(k, epsilon));
            long y = Math.max(floor, m.epoch(k, epsilon));
            long z = Math.max(x, y);
            if (k == process) {
                z = Math.max(z, epoch);
            }
            mine = mine && x == z;
            theirs = theirs && y == z;
            next.epochs[k] = z;
        }
        for (long left = all; left != 0; left &= left - 1) {
            int k = Long.numberOfTrailingZeros(left);
            long count = Math.max(mine ? now.counter(k) : 0, theirs ? m.counter(k) : 0);
            if (k == process && (mine || theirs)) {
                count++;
            }
            next.put(k, next.epochs[k], count, epsilon);
        }
        now.copy(next);
        return fine;
    }

    /** What a process knew at an event. */
    public static final class Stamp {
        /** The largest number of bytes of a stamp. */
        public static final int MAX_BYTES = 16 + 2 * 8 * 64;

        private long max;
        private long held; // bit k is 1 if process k is held
        private final long[] epochs = new long[64];
        private final long[] counters = new long[64];

        /** Makes this a copy of another stamp. */
        public void copy(Stamp of) {
            max = of.max;
            held = of.held;
            System.arraycopy(of.epochs, 0, epochs, 0, 64);
            System.arraycopy(of.counters, 0, counters, 0, 64);
        }

        private boolean has(int k) {
            return (held >>> k & 1) == 1;
        }

        private long epoch(int k, long epsilon) {
            return has(k) ? epochs[k] : max - epsilon;
        }

        private long counter(int k) {
            return has(k) ? counters[k] : 0;
        }

        private void put(int k, long epoch, long counter, long epsilon) {
            if (epoch > max - epsilon || counter > 0) {
                held |= 1L << k;
                epochs[k] = epoch;
                counters[k] = counter;
            } else {
                held &= ~(1L << k);
            }
        }

        /**
         * Compares two stamps.
         *
         * @return −1 if this one is before the other in every replay, 1 if it is after the other,
         *     and 0 if either order is possible
         */
        public int compare(Stamp other, long epsilon) {
            boolean below = max <= other.max;
            boolean above = other.max <= max;
            boolean fewer = true;
            boolean more = true;
            for (long left = held | other.held; left != 0; left &= left - 1) {
                int k = Long.numberOfTrailingZeros(left);
                long x = epoch(k, epsilon);
                long y = other.epoch(k, epsilon);
                below = below && x <= y;
                above = above && y <= x;
                fewer = fewer && counter(k) <= other.counter(k);
                more = more && other.counter(k) <= counter(k);
            }
            if (below && above) {
                below = fewer && !more;
                above = more && !fewer;
            }
            return below ? -1 : above ? 1 : 0;
        }

        /** The bytes of the stamp. */
        public byte[] toBytes(long epsilon) {
            if (max < 0 || max >>> 56 != 0) {
                throw new IllegalStateException("write stamp: epoch " + max + " is out of range");
            }
            long largest = 0;
            for (long left = held; left != 0; left &= left - 1) {
                largest = Math.max(largest, counters[Long.numberOfTrailingZeros(left)]);
            }
            int offsets = bits(epsilon);
            int width = bits(largest);
            Words words = new Words(new byte[length(offsets, width)]);
            words.put(max | (long) width << 56, 64);
            words.put(held, 64);
            for (long left = held; left != 0; left &= left - 1) {
                words.put(max - epochs[Long.numberOfTrailingZeros(left)], offsets);
            }
            words.align();
            for (long left = held; left != 0; left &= left - 1) {
                words.put(counters[Long.numberOfTrailingZeros(left)], width);
            }
            return words.bytes;
        }

        /**
         * Reads the stamp at the beginning of the bytes into this one.
         *
         * @return how many bytes it has
         * @throws IllegalArgumentException if the bytes are not a stamp, or hold a process above 63
         */
        public int read(byte[] bytes, long epsilon) {
            Words words = new Words(bytes);
            if (bytes.length < 16) {
                throw new IllegalArgumentException(
                        "read stamp of " + bytes.length + " bytes: too short");
            }
            long first = words.take(64);
            held = words.take(64);
            max = first & (1L << 56) - 1;
            int width = (int) (first >>> 56);
            int offsets = bits(epsilon);
            if (width > 63 || length(offsets, width) > bytes.length) {
                throw new IllegalArgumentException(
                        "read stamp of " + bytes.length + " bytes: malformed");
            }
            for (long left = held; left != 0; left &= left - 1) {
                long offset = words.take(offsets);
                if (offset > epsilon) {
                    throw new IllegalArgumentException(
                            "read stamp: offset " + offset + " above epsilon");
                }
                epochs[Long.numberOfTrailingZeros(left)] = max - offset;
            }
            words.align();
            for (long left = held; left != 0; left &= left - 1) {
                counters[Long.numberOfTrailingZeros(left)] = words.take(width);
            }
            return length(offsets, width);
        }

        private int length(int offsets, int width) {
            int n = Long.bitCount(held);
            return 16 + (n * offsets + 63) / 64 * 8 + (n * width + 63) / 64 * 8;
        }
    }

    private static int bits(long v) {
        return 64 - Long.numberOfLeadingZeros(v);
    }

    /** Numbers of a few bits in little-endian words. */
    private static final class Words {
        final byte[] bytes;
        private int at;

        Words(byte[] bytes) {
            this.bytes = bytes;
        }

        void put(long v, int width) {
            for (int i = 0; i < width; i++, at++) {
                bytes[at / 8] |= (byte) ((v >>> i & 1) << at % 8);
            }
        }

        long take(int width) {
            long v = 0;
            for (int i = 0; i < width; i++, at++) {
                v |= (long) (bytes[at / 8] >>> at % 8 & 1) << i;
            }
            return v;
        }

        void align() {
            at = (at + 63) / 64 * 64;
        }
    }
}
