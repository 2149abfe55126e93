package io.github.cloudprofiler.programs;

import io.github.cloudprofiler.Channel;
import io.github.cloudprofiler.Options;
import java.io.IOException;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import java.util.function.LongConsumer;

/**
 * Logs until it is killed, and notes in a file how many calls have returned and into which rings
 * they logged: see sdk/c/test/testimony.c. Go package internal/testimony has the layout of the
 * file. The arguments are the file and the number of writers on the shared channel.
 */
public final class Testimony {
    private static final int BEGUN = 8 * Long.BYTES;
    private static final int RINGS = BEGUN + Long.BYTES;
    private static final int RING_BYTES = 256;
    private static final int BYTES = RINGS + 4 * RING_BYTES;

    private static final VarHandle WORD =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    private final ByteBuffer said;

    private Testimony(ByteBuffer said) {
        this.said = said;
    }

    public static void main(String[] args) throws IOException {
        ByteBuffer said;
        try (FileChannel file = FileChannel.open(Path.of(args[0]), StandardOpenOption.CREATE,
                StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            said = file.map(FileChannel.MapMode.READ_WRITE, 0, BYTES);
        }
        new Testimony(said).log(Integer.parseInt(args[1]));
    }

    private void log(int writers) {
        Options drop = new Options().policy("drop");
        Channel one = note(0, Channel.open("one/x", drop.bufferBytes(64 << 10)));
        Channel links = note(1, Channel.open("links/x",
                new Options().handler("link").bufferBytes(64 << 10)));
        Channel shared = note(2, Channel.openShared("shared/x",
                drop.handler("id").bufferBytes(256 << 10)));
        Channel counted = note(3, Channel.openShared("counted/x",
                new Options().handler("counter")));
        WORD.setRelease(said, BEGUN, 1L);
        for (int i = 2 + writers; i < 8; i++) {
            start(i, counted::log);
        }
        for (int i = 0; i < writers; i++) {
            long number = i;
            start(2 + i, id -> shared.log(number << 48 | id));
        }
        start(1, id -> links.link(id, id + 1));
        start(0, one::log);
    }

    private Channel note(int ring, Channel c) {
        if (c.error() != null) {
            throw new IllegalStateException(c.error());
        }
        said.put(RINGS + ring * RING_BYTES, c.path().getBytes(StandardCharsets.UTF_8));
        return c;
    }

    private void start(int writer, LongConsumer call) {
        new Thread(() -> burst(writer, call)).start();
    }

    private void burst(int writer, LongConsumer call) {
        SplittableRandom random = new SplittableRandom(ProcessHandle.current().pid() + writer);
        for (long id = 0;; ) {
            for (int n = random.nextInt(4000); n > 0; n--) {
                call.accept(id);
                id++;
                WORD.setRelease(said, writer * Long.BYTES, id);
            }
            LockSupport.parkNanos(random.nextInt(2_000_000));
        }
    }
}
