package io.github.cloudprofiler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.lang.management.ManagementFactory;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class ChannelTest {
    private static final long NULL = 0;
    private static final long ID = 1;
    private static final long DOWNSAMPLE = 4;
    private static final long XOY = 5;

    @Test
    void javaDecidesAsTheLibraryDoes() throws Exception {
        long seed = System.nanoTime();
        Random random = new Random(seed);
        for (int i = 0; i < 100_000; i++) {
            long y = random.nextBoolean() ? 1L << random.nextInt(64)
                    : random.nextLong() >>> random.nextInt(64);
            y = y == 0 ? 1 : y;
            long x = random.nextInt(8) == 0 ? random.nextBoolean() ? y : 0
                    : Long.remainderUnsigned(random.nextLong(), y);
            long id = random.nextLong() >>> random.nextInt(64);
            Rule rule = new Rule(7, XOY, x, y);
            boolean want = Long.compareUnsigned(Long.remainderUnsigned(id, y), x) < 0;
            assertEquals(want, rule.keeps(id), id + " mod " + y + " < " + x + ", seed " + seed);
            assertEquals(x == 0, rule.idle());
        }
    }

    @Test
    void anEventThatIsNotKeptEndsInJava() throws Exception {
        try (Rings rings = new Rings();
                Channel c = Rings.opened(Channel.open("a/x",
                        rings.options().handler("xoy").x(2).y(1024)))) {
            int kept = 0;
            for (long id = 0; id < 10_240; id++) {
                kept += c.keeps(id) ? 1 : 0;
                c.log(id);
            }
            assertEquals(20, kept);
            assertEquals(20, Rings.events(c));
        }
    }

    @Test
    void newSettingsAreAdoptedAndNoted() throws Exception {
        for (boolean shared : new boolean[] {false, true}) {
            try (Rings rings = new Rings();
                    Channel c = Rings.opened(shared ? Channel.openShared("a/x", rings.options())
                            : Channel.open("a/x", rings.options()))) {
                assertTrue(c.keeps(7));
                assertEquals(1, Rings.journal(c));
                Rings.set(c, shared, NULL, 0, 0);
                assertFalse(c.keeps(7));
                assertEquals(2, Rings.journal(c));
                c.log(7);
                c.logAt(Channel.counter(), 7);
                c.link(7, 8);
                Rings.set(c, shared, XOY, 1, 2);
                c.log(7);
                assertEquals(3, Rings.journal(c));
                assertFalse(c.keeps(7));
                assertTrue(c.keeps(8));
                Rings.set(c, shared, DOWNSAMPLE, 1000, 0);
                assertTrue(c.keeps(7)); // the library counts, not Java
                Rings.set(c, shared, ID, 5, 5); // not valid: the library uses null
                assertFalse(c.keeps(7));
                assertEquals(5, Rings.journal(c));
            }
        }
    }

    @Test
    void aCallAllocatesNothing() throws Exception {
        com.sun.management.ThreadMXBean threads =
                (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        assumeTrue(threads.isThreadAllocatedMemorySupported());
        try (Rings rings = new Rings();
                Channel one = Rings.opened(Channel.open("one/x",
                        rings.options().policy("overwrite")));
                Channel off = Rings.opened(Channel.open("off/x",
                        rings.options().handler("null")));
                Channel links = Rings.opened(Channel.open("links/x",
                        rings.options().handler("link").policy("overwrite")));
                Channel shared = Rings.opened(Channel.openShared("shared/x",
                        rings.options().policy("drop")))) {
            long thread = Thread.currentThread().getId();
            long least = Long.MAX_VALUE;
            for (int i = 0; i < 20; i++) { // the first turns are interpreted, and may allocate
                long before = threads.getThreadAllocatedBytes(thread);
                for (int id = 0; id < 20_000; id++) {
                    one.log(id);
                    one.logAt(Channel.counter(), id);
                    off.log(id);
                    links.link(id, id + 1);
                    one.logMade(id, id + 1, links);
                    shared.log(id);
                }
                least = Math.min(least, threads.getThreadAllocatedBytes(thread) - before);
            }
            assertTrue(least < 1000, least + " bytes in 120,000 calls");
        }
    }

    /**
     * A thread waits for room in a full ring for a second. Meanwhile another thread needs a
     * safepoint.
     */
    @Test
    void aFullRingBlocksNoSafepoint() throws Exception {
        for (boolean shared : new boolean[] {false, true}) {
            try (Rings rings = new Rings()) {
                Options o = rings.options().handler("id").bufferBytes(256).policy("block");
                Channel c = Rings.opened(shared ? Channel.openShared("full/x", o)
                        : Channel.open("full/x", o));
                while (Rings.events(c) < 16) { // the shard of another core may be filled
                    long before = Rings.events(c);
                    Thread filler = new Thread(() -> c.log(1));
                    filler.start();
                    filler.join(100);
                    if (Rings.events(c) == before) {
                        break;
                    }
                }
                Thread waiter = new Thread(() -> {
                    for (int i = 0; i < 1000; i++) {
                        c.log(2);
                    }
                });
                long start = System.nanoTime();
                waiter.start();
                Thread.sleep(100); // until the thread waits for room
                long longest = 0;
                int pauses = 0;
                while (waiter.isAlive() && System.nanoTime() - start < 900_000_000L) {
                    long before = System.nanoTime();
                    System.gc();
                    longest = Math.max(longest, System.nanoTime() - before);
                    pauses++;
                }
                assertTrue(pauses > 0, "the thread did not wait");
                waiter.join();
                assertTrue(longest < TimeUnit.MILLISECONDS.toNanos(400),
                        longest / 1_000_000 + " ms in the longest of " + pauses + " collections");
                assertTrue(c.dropped() > 0);
            }
        }
    }

    @Test
    void aWaitingCallLosesNothing() throws Exception {
        for (String handler : new String[] {"id", "downsample", "link"}) {
            try (Rings rings = new Rings();
                    Channel c = Rings.opened(Channel.open("full/x", rings.options()
                            .handler(handler).n(handler.equals("downsample") ? 3 : 0)
                            .bufferBytes(256)))) {
                int perEvent = handler.equals("link") ? 2 : 1;
                int step = handler.equals("downsample") ? 3 : 1;
                Thread writer = new Thread(() -> {
                    for (int id = 0; id < 300; id++) {
                        if (perEvent == 2) {
                            c.link(id, id);
                        } else {
                            c.log(id);
                        }
                    }
                });
                writer.start();
                while (writer.isAlive()) {
                    Rings.drain(c);
                    Thread.sleep(1);
                }
                assertEquals(0, c.dropped());
                assertEquals(300 * perEvent / step, Rings.events(c));
            }
        }
    }

    @Test
    void aChildIsLoggedAndLinkedWithOneReading() throws Exception {
        try (Rings rings = new Rings();
                Channel c = Rings.opened(Channel.open("a/x", rings.options()))) {
            Channel links = Rings.opened(
                    Channel.open("a/links", rings.options().handler("link")));
            c.logMade(7, 8, links);
            assertEquals(8, Rings.id(c, 0));
            assertEquals(7, Rings.id(links, 0));
            assertEquals(8, Rings.id(links, 1));
            for (int i = 0; i < 2; i++) {
                assertEquals(Rings.counter(c, 0), Rings.counter(links, i));
            }
            Rings.set(c, false, XOY, 1, 2);
            c.logMade(8, 9, links);
            assertEquals(1, Rings.events(c));
            assertEquals(2, Rings.events(links), "the child is not kept");
            Rings.set(c, false, ID, 0, 0);
            Rings.set(links, false, 0, 0, 0);
            c.logMade(9, 10, links);
            assertEquals(2, Rings.events(links), "the handler is null");
            assertEquals(2, Rings.events(c));
            assertFalse(Rings.misused(c));
            links.close();
            c.logMade(11, 12, links);
            assertEquals(3, Rings.events(c));
            try (Channel other = Rings.opened(Channel.open("b/x", rings.options()))) {
                c.logMade(13, 14, other);
                assertEquals(0, Rings.events(other));
                assertTrue(Rings.misused(other));
            }
        }
    }

    /** If only one of the two rings is full, only the records for this ring are dropped. No record
     * is written twice. */
    @Test
    void aChildAndItsLinkAreDroppedOnTheirOwn() throws Exception {
        for (boolean full : new boolean[] {false, true}) {
            try (Rings rings = new Rings();
                    Channel c = Rings.opened(Channel.open("full/x", rings.options()
                            .policy("drop").bufferBytes(full ? 256 : 4096)));
                    Channel links = Rings.opened(Channel.open("full/links", rings.options()
                            .handler("link").policy("drop").bufferBytes(full ? 4096 : 256)))) {
                for (int id = 0; id < 20; id++) {
                    c.logMade(id, id, links);
                }
                assertEquals(full ? 16 : 20, Rings.events(c));
                assertEquals(full ? 4 : 0, c.dropped());
                assertEquals(full ? 40 : 16, Rings.events(links));
                assertEquals(full ? 0 : 12, links.dropped());
            }
        }
    }

    @Test
    void aChildAndItsLinkWaitForRoom() throws Exception {
        try (Rings rings = new Rings();
                Channel c = Rings.opened(Channel.open("full/x",
                        rings.options().bufferBytes(256)));
                Channel links = Rings.opened(Channel.open("full/links",
                        rings.options().handler("link").bufferBytes(512)))) {
            Thread writer = new Thread(() -> {
                for (int id = 0; id < 300; id++) {
                    c.logMade(id, id, links);
                }
            });
            writer.start();
            while (writer.isAlive()) {
                Rings.drain(c);
                Rings.drain(links);
                Thread.sleep(1);
            }
            assertEquals(0, c.dropped() + links.dropped());
            assertEquals(300, Rings.events(c));
            assertEquals(600, Rings.events(links));
        }
    }

    @Test
    void aClosedChannelIsANoOp() throws Exception {
        try (Rings rings = new Rings()) {
            Channel c = Rings.opened(Channel.open("a/x", rings.options()));
            c.log(1);
            c.close();
            c.close();
            c.log(2);
            c.logAt(3, 3);
            c.link(4, 4);
            c.snapshot();
            assertFalse(c.keeps(5));
            assertTrue(Rings.closed(rings.files().get(0)));
            assertEquals(1, Rings.events(rings.files().get(0)));
        }
    }

    /** Many threads log while others close the channels, and the memory is freed and used again. */
    @Test
    void closingNeverHarmsAWriter() throws Exception {
        try (Rings rings = new Rings()) {
            for (int round = 0; round < 60; round++) {
                Channel c = Rings.opened(Channel.openShared("a/x",
                        rings.options().policy("drop").bufferBytes(4096)));
                Thread[] writers = new Thread[3];
                for (int i = 0; i < writers.length; i++) {
                    writers[i] = new Thread(() -> {
                        for (int id = 0; id < 20_000; id++) {
                            c.log(id);
                        }
                    });
                    writers[i].start();
                }
                c.close();
                if (round % 20 == 0) {
                    System.gc();
                }
                for (Thread w : writers) {
                    w.join();
                }
            }
        }
    }

    @Test
    void aForgottenChannelIsClosed() throws Exception {
        try (Rings rings = new Rings()) {
            Rings.opened(Channel.open("forgotten/x", rings.options())).log(1);
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            boolean closed = false;
            while (!closed && System.nanoTime() < deadline) {
                System.gc();
                Thread.sleep(10);
                Channel.open("other/x", rings.options().bufferBytes(256)).close();
                for (java.nio.file.Path ring : rings.files()) {
                    closed |= ring.toString().contains("forgotten") && Rings.closed(ring);
                }
            }
            assertTrue(closed);
        }
    }

    @Test
    void aChannelThatCannotOpenSaysWhy() throws Exception {
        Channel c = Channel.open("no point");
        assertNotNull(c.error());
        assertTrue(c.error().contains("no point"), c.error());
        assertEquals("", c.path());
        c.log(1);
        c.logAt(1, 1);
        c.link(1, 2);
        c.snapshot();
        assertFalse(c.keeps(1));
        assertEquals(0, c.dropped());
        c.close();
        assertNotNull(Channel.open(null).error());
        assertNotNull(Channel.open("a/x\0y").error());
        assertNotNull(Channel.open("a/x",
                new Options().dir(java.nio.file.Path.of("/proc/nowhere"))).error());
    }

    @Test
    void theCallsAreTheOnesForThisJava() {
        assertTrue(Channel.counter() > 0);
        assertEquals(Runtime.version().feature() >= 21, Calls.CRITICAL);
    }
}
