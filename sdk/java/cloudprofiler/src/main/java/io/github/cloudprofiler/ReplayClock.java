package io.github.cloudprofiler;

import java.util.Arrays;

/**
 * A replay clock: its stamps show which events causality or time orders, and which could have
 * happened in either order. Package replay/clock of the Go module explains the clock, and its
 * FORMAT.md the bytes of a stamp, which are the same in Go.
 *
 * <p>One thread at a time may use a clock. A clock allocates only when a stamp holds more processes
 * than any before.
 */
public final class ReplayClock {
    private final int process;
    private final long epsilon;
    private final Stamp now = new Stamp();
    private final Stamp next = new Stamp();
    private final Merge merge = new Merge();
    private long broken;

    /**
     * Makes the clock of a process.
     *
     * @param process the process's number, 0 or more
     * @param epsilon by how many epochs two clocks may differ; the same for all processes
     */
    public ReplayClock(int process, long epsilon) {
        if (process < 0) {
            throw new IllegalArgumentException("make replay clock: process " + process
                    + " is negative: number processes from 0 on");
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
        long floor = reached - epsilon;
        int at = now.find(process);
        boolean has = at < now.held && now.processes[at] == process;
        long known = has ? now.epochs[at] : now.max - epsilon;
        long own = Math.max(epoch, known);
        if (epoch < floor) {
            broken++;
        }
        if (reached == now.max && own == known) {
            if (has) {
                now.counters[at]++;
            } else {
                now.insert(at, process, known, 1);
            }
            return;
        }
        int kept = 0;
        for (int i = 0; i < now.held; i++) {
            if (now.processes[i] != process && now.epochs[i] > floor) {
                now.set(kept++, now.processes[i], now.epochs[i], 0);
            }
        }
        now.max = reached;
        now.held = kept;
        if (own > floor) {
            now.insert(now.find(process), process, own, 0);
        }
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
        // mine says whether the process already knew, before the message came, everything that it
        // knows now. theirs says the same of the message's stamp.
        merge.begin(now, m, epsilon, process);
        while ((mine || theirs) && merge.next()) {
            long x = Math.max(floor, merge.x);
            long y = Math.max(floor, merge.y);
            long z = Math.max(x, y);
            if (merge.process == process) {
                z = Math.max(z, epoch);
            }
            mine = mine && x == z;
            theirs = theirs && y == z;
        }
        next.max = reached;
        next.held = 0;
        next.reserve(now.held + m.held + 1);
        merge.begin(now, m, epsilon, process);
        while (merge.next()) {
            long z = Math.max(floor, Math.max(merge.x, merge.y));
            long count = Math.max(mine ? merge.m : 0, theirs ? merge.n : 0);
            if (merge.process == process) {
                z = Math.max(z, epoch);
                count += mine || theirs ? 1 : 0;
            }
            if (z > floor || count > 0) {
                next.set(next.held++, merge.process, z, count);
            }
        }
        now.copy(next);
        return fine;
    }

    /**
     * Goes through all processes that two stamps hold, and through the clock's own process, if
     * there is one.
     */
    private static final class Merge {
        private Stamp a;
        private Stamp b;
        private long epsilon;
        private int own; // −1: gone through, or none
        private int i;
        private int j;
        // The present process, and its epochs in the two stamps.
        int process;
        long x;
        long y;
        long m;
        long n;

        void begin(Stamp a, Stamp b, long epsilon, int own) {
            this.a = a;
            this.b = b;
            this.epsilon = epsilon;
            this.own = own;
            i = 0;
            j = 0;
        }

        boolean next() {
            if (i == a.held && j == b.held && own < 0) {
                return false;
            }
            int p = Integer.MAX_VALUE;
            if (i < a.held) {
                p = a.processes[i];
            }
            if (j < b.held) {
                p = Math.min(p, b.processes[j]);
            }
            if (own >= 0 && own <= p) {
                p = own;
                own = -1;
            }
            process = p;
            // If a stamp does not hold a process, the stamp implies the epoch max − epsilon for
            // this process.
            x = a.max - epsilon;
            y = b.max - epsilon;
            m = 0;
            n = 0;
            if (i < a.held && a.processes[i] == p) {
                x = a.epochs[i];
                m = a.counters[i++];
            }
            if (j < b.held && b.processes[j] == p) {
                y = b.epochs[j];
                n = b.counters[j++];
            }
            return true;
        }
    }

    /** What a process knew at an event. */
    public static final class Stamp {
        /** The largest number of processes that a stamp may hold. */
        public static final int MAX_HELD = 1 << 16;

        private long max;
        private int held; // how many processes are held
        private int[] processes = new int[8]; // increasing
        private long[] epochs = new long[8];
        private long[] counters = new long[8];

        /** Makes this a copy of another stamp. */
        public void copy(Stamp of) {
            reserve(of.held);
            max = of.max;
            held = of.held;
            System.arraycopy(of.processes, 0, processes, 0, held);
            System.arraycopy(of.epochs, 0, epochs, 0, held);
            System.arraycopy(of.counters, 0, counters, 0, held);
        }

        private void reserve(int room) {
            if (room > processes.length) {
                processes = Arrays.copyOf(processes, 2 * room);
                epochs = Arrays.copyOf(epochs, 2 * room);
                counters = Arrays.copyOf(counters, 2 * room);
            }
        }

        /** Returns the index of a process, or of the first process above it. */
        private int find(int process) {
            int i = 0;
            while (i < held && processes[i] < process) {
                i++;
            }
            return i;
        }

        private void set(int i, int process, long epoch, long counter) {
            processes[i] = process;
            epochs[i] = epoch;
            counters[i] = counter;
        }

        private void insert(int i, int process, long epoch, long counter) {
            reserve(held + 1);
            for (int k = held++; k > i; k--) {
                set(k, processes[k - 1], epochs[k - 1], counters[k - 1]);
            }
            set(i, process, epoch, counter);
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
            Merge merge = new Merge();
            merge.begin(this, other, epsilon, -1);
            while ((below || above) && merge.next()) {
                below = below && merge.x <= merge.y;
                above = above && merge.y <= merge.x;
                fewer = fewer && merge.m <= merge.n;
                more = more && merge.n <= merge.m;
            }
            if (below && above) {
                below = fewer && !more;
                above = more && !fewer;
            }
            return below ? -1 : above ? 1 : 0;
        }

        /** Returns whether the format needs a list, because the last process is above 63. */
        private boolean listed() {
            return held > 0 && processes[held - 1] > 63;
        }

        /** The bytes of the stamp. */
        public byte[] toBytes(long epsilon) {
            if (max < 0 || max >>> 56 != 0 || held > MAX_HELD) {
                throw new IllegalStateException("write stamp: epoch " + max + " is out of range, "
                        + "or " + held + " processes are too many");
            }
            long largest = 0;
            long bitmap = 0;
            for (int i = 0; i < held; i++) {
                largest = Math.max(largest, counters[i]);
                bitmap |= 1L << processes[i];
            }
            int offsets = bits(epsilon);
            int width = bits(largest);
            boolean list = listed();
            Words words = new Words(new byte[(int) length(held, list, offsets, width)]);
            words.put(max | (long) width << 56 | (list ? 1L << 63 : 0), 64);
            words.put(list ? held : bitmap, 64);
            for (int i = 0; list && i < held; i++) {
                words.put(processes[i], 32);
            }
            words.end();
            for (int i = 0; i < held; i++) {
                words.put(max - epochs[i], offsets);
            }
            words.end();
            for (int i = 0; i < held; i++) {
                words.put(counters[i], width);
            }
            return words.bytes;
        }

        /**
         * Reads the stamp at the beginning of the bytes into this one.
         *
         * @return how many bytes it has
         * @throws IllegalArgumentException if the bytes are not a stamp
         */
        public int read(byte[] bytes, long epsilon) {
            held = 0;
            if (bytes.length < 16) {
                throw bad(bytes, "too short");
            }
            Words words = new Words(bytes);
            long first = words.take(64);
            long second = words.take(64);
            max = first & (1L << 56) - 1;
            int width = (int) (first >>> 56 & 127);
            int offsets = bits(epsilon);
            boolean list = first < 0;
            if (list && (second <= 0 || second > MAX_HELD)) {
                throw bad(bytes, "it holds 0 processes, or more than " + MAX_HELD);
            }
            int count = list ? (int) second : Long.bitCount(second);
            if (width > 63 || length(count, list, offsets, width) > bytes.length) {
                throw bad(bytes, "counters are too long, or the end is missing");
            }
            reserve(count);
            held = count;
            boolean fine = true;
            for (int i = 0; i < count; i++) {
                if (list) {
                    processes[i] = (int) words.take(32);
                    fine &= processes[i] > (i > 0 ? processes[i - 1] : -1);
                } else {
                    processes[i] = Long.numberOfTrailingZeros(second);
                    second &= second - 1;
                }
            }
            fine &= words.end() && listed() == list;
            for (int i = 0; i < count; i++) {
                long offset = words.take(offsets);
                fine &= offset <= epsilon;
                epochs[i] = max - offset;
            }
            fine &= words.end();
            long largest = 0;
            for (int i = 0; i < count; i++) {
                counters[i] = words.take(width);
                largest = Math.max(largest, counters[i]);
                fine &= counters[i] > 0 || epochs[i] > max - epsilon;
            }
            fine &= words.end() && bits(largest) == width;
            if (!fine) {
                held = 0;
                throw bad(bytes, "no clock with this epsilon writes it");
            }
            return (int) length(count, list, offsets, width);
        }

        private static IllegalArgumentException bad(byte[] bytes, String why) {
            return new IllegalArgumentException(
                    "read stamp of " + bytes.length + " bytes: " + why);
        }

        private static long length(int n, boolean list, int offsets, int width) {
            return 16 + words(list ? n : 0, 32) + words(n, offsets) + words(n, width);
        }

        private static long words(long n, int width) {
            return (n * width + 63) / 64 * 8;
        }
    }

    private static int bits(long v) {
        return 64 - Long.numberOfLeadingZeros(v);
    }

    /** Packs numbers of a few bits each into little-endian words, and unpacks them. */
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

        /** Goes to the next word. Returns false if one of the bits that it skips is not 0. */
        boolean end() {
            int rest = (64 - at % 64) % 64;
            if (at + rest > 8L * bytes.length) {
                return true; // nothing follows
            }
            return take(rest) == 0;
        }
    }
}
