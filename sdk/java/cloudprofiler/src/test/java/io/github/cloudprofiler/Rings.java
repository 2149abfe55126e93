package io.github.cloudprofiler;

import static org.junit.jupiter.api.Assertions.assertNull;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.Comparator;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** A directory of rings for one test, without an agent. */
final class Rings implements AutoCloseable {
    private static final int PAGE = 4096; // ring/FORMAT.md has this and the offsets below
    private static final int TAIL = PAGE;
    private static final int JOURNAL = PAGE + 24;
    private static final int FLAGS = PAGE + 32;
    private static final int WORD = PAGE + 48;
    private static final int HEAD = PAGE + 128;
    private static final int SLOTS = 1024 + 64;
    private static final int SHARED_WORD = 1024;
    private static final int RECORDS = 2 * PAGE; // of one shard

    final Path dir;

    Rings() throws IOException {
        this(Path.of(System.getProperty("java.io.tmpdir")));
    }

    Rings(Path parent) throws IOException {
        dir = Files.createTempDirectory(parent, "cloudprofiler-rings-");
    }

    Options options() {
        return new Options().dir(dir);
    }

    static Channel opened(Channel channel) {
        assertNull(channel.error());
        return channel;
    }

    List<Path> files() throws IOException {
        try (Stream<Path> all = Files.list(dir)) {
            return all.filter(p -> p.toString().endsWith(".ring")).collect(Collectors.toList());
        }
    }

    static long events(Channel channel) {
        return read(Path.of(channel.path()), TAIL);
    }

    static long events(Path ring) {
        return read(ring, TAIL);
    }

    /** Returns the counter of a record in a ring of one writer. */
    static long counter(Channel channel, int record) {
        return read(Path.of(channel.path()), RECORDS + 16 * record);
    }

    static long id(Channel channel, int record) {
        return read(Path.of(channel.path()), RECORDS + 16 * record + 8);
    }

    static long journal(Channel channel) {
        return read(Path.of(channel.path()), JOURNAL);
    }

    /** Returns whether somebody made a call that this channel does not permit. */
    static boolean misused(Channel channel) {
        return (read(Path.of(channel.path()), FLAGS) & 2) != 0;
    }

    /** Whether the program has closed the ring. */
    static boolean closed(Path ring) {
        return (read(ring, FLAGS) & 4) != 0;
    }

    /** Makes room for records, as a drainer does. */
    static void drain(Channel channel) {
        write(channel, HEAD, events(channel));
    }

    /** Gives a channel other settings, as a drainer does. */
    static void set(Channel channel, boolean shared, long kind, long a, long b) {
        Path ring = Path.of(channel.path());
        int at = shared ? SHARED_WORD : WORD;
        long word = read(ring, at);
        long slot = 1 + (word & 0xFF) % 7;
        int place = SLOTS + (int) slot * 32;
        write(channel, place, kind);
        write(channel, place + 8, a);
        write(channel, place + 16, b);
        write(channel, at, (word >>> 16) + 1 << 16 | kind << 8 | slot);
    }

    private static long read(Path ring, int at) {
        try (FileChannel file = FileChannel.open(ring)) {
            ByteBuffer b = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
            file.read(b, at);
            return b.getLong(0);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    private static void write(Channel channel, int at, long value) {
        try (FileChannel file = FileChannel.open(Path.of(channel.path()),
                StandardOpenOption.WRITE)) {
            ByteBuffer b = ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN);
            file.write(b.putLong(0, value), at);
        } catch (IOException e) {
            throw new AssertionError(e);
        }
    }

    @Override
    public void close() throws IOException {
        try (Stream<Path> all = Files.walk(dir)) {
            for (Path p : all.sorted(Comparator.reverseOrder()).collect(Collectors.toList())) {
                Files.delete(p);
            }
        }
    }
}
