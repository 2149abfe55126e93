package io.github.cloudprofiler.agent.advice;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests the advice with objects that have the members of Flink's classes that it uses. */
class FlinkAdviceTest {
    private static final String ELEMENTS = "org.apache.flink.streaming.runtime.";

    /** Flink's name of an input channel, which is a queue. Each gate counts its input channels from
     * 0. */
    private record Info(int getGateIdx, int getInputChannelIdx) {}

    private static final class Range {
        int size() {
            return 1;
        }

        int getStartIndex() {
            return 0;
        }
    }

    private static final class Single {
        String getOwningTaskName() {
            return "Map (1/2)#0 (a_0_0)";
        }
    }

    private static final class Channel {
        final Single inputGate = new Single();
        final Range consumedSubpartitionIndexSet = new Range();
        final Info channelInfo;

        Channel(Info info) {
            channelInfo = info;
        }

        String getPartitionId() {
            return "partition of " + channelInfo;
        }

        String owner() {
            return inputGate.getOwningTaskName();
        }
    }

    private static final class Gate {
        final List<Channel> channels = new ArrayList<>();

        Channel getChannel(int i) {
            return channels.get(i);
        }

        int getNumberOfInputChannels() {
            return channels.size();
        }
    }

    @Test
    void aUnionsGatesAreAllCounted() throws Exception {
        Gate gate = new Gate();
        for (int i = 0; i < 6; i++) {
            gate.channels.add(new Channel(new Info(i / 2, i % 2)));
        }
        Object input = FlinkAdvice.input(gate);
        for (Channel c : gate.channels) {
            assertTrue(FlinkAdvice.counts(input, c.channelInfo), c.getPartitionId());
        }
        Info replaced = new Info(0, 1);
        assertFalse(FlinkAdvice.counts(input, replaced));
        Channel later = new Channel(new Info(0, 1));
        gate.channels.set(1, later);
        assertTrue(FlinkAdvice.counts(input, later.channelInfo));
        FlinkAdvice.inputClosed(input);
    }

    private record Partition(String getOwningTaskName) {
        Partition() {
            this("Map (2/2)#0 (b_0_0)");
        }

        String getPartitionId() {
            return "partition";
        }

        int getNumberOfSubpartitions() {
            return 2;
        }
    }

    /** If elements were only restored, the writer has no state, but the partition has an output. */
    @Test
    void anOutputThatWasOnlyRestoredIsClosed() throws Exception {
        Partition partition = new Partition();
        FlinkAdvice.restored(FlinkAdvice.output(partition), 0);
        assertTrue(FlinkAdvice.isOpen("partition"));
        FlinkAdvice.outputClosed(null, partition);
        assertFalse(FlinkAdvice.isOpen("partition"));
        FlinkAdvice.outputClosed(null, partition); // a second time, too
    }

    /** Only what a task sends while it works on a record is linked with that record. */
    @ParameterizedTest
    @ValueSource(longs = {1, 2})
    void whatIsMadeOfARecordIsLinkedWithIt(long y, @TempDir Path dir) throws Exception {
        Points.configure(new Points.Keep(1, y), null, dir.toString());
        try (URLClassLoader flink = flink("1.20.5")) {
            Object record = record(flink);
            Gate gate = new Gate();
            Info info = new Info(0, 0);
            gate.channels.add(new Channel(info));
            Object input = FlinkAdvice.input(gate);
            Object output = FlinkAdvice.output(new Partition(gate.channels.get(0).owner()));

            FlinkAdvice.received(input, info, true); // 0
            FlinkAdvice.sent(output, record, 0); // 0: linked
            FlinkAdvice.interrupted();
            FlinkAdvice.sent(output, record, 0); // 1
            FlinkAdvice.interrupted();
            FlinkAdvice.sent(output, record, 0); // 2
            FlinkAdvice.resumed();
            FlinkAdvice.sent(output, record, 0); // 3
            FlinkAdvice.resumed();
            FlinkAdvice.sent(output, record, 0); // 4: linked
            FlinkAdvice.processed(input);
            FlinkAdvice.sent(output, record, 0); // 5
            FlinkAdvice.received(input, info, false); // 1
            FlinkAdvice.sent(output, record, 0); // 6
            FlinkAdvice.processed(input);
            FlinkAdvice.interrupted(); // and it throws
            FlinkAdvice.received(input, info, true); // 2
            FlinkAdvice.resumed();
            FlinkAdvice.sent(output, record, 0); // 7: linked
            FlinkAdvice.processed(input);
            FlinkAdvice.received(input, new Info(9, 9), true); // of a queue that nobody counts
            FlinkAdvice.sent(output, record, 0); // 8
            FlinkAdvice.processed(input);
            FlinkAdvice.received(input, info, true); // 3
            FlinkAdvice.sent(output, record, 0); // 9: linked
            FlinkAdvice.processed(input);
            FlinkAdvice.sent(output, 5L, 0); // 10, of the DataSet interface: there are no more ids
            FlinkAdvice.sent(output, record, 0); // 11
            FlinkAdvice.sent(output, record, 0); // 12
            FlinkAdvice.sent(output, record, 0); // 13

            long in = Ordinals.first(gate.channels.get(0).getPartitionId() + "/0");
            long out = Ordinals.first("partition/0");
            assertEquals(kept(y, in, 0, 2, 3), Logged.ids(dir, "Map#0/recv"));
            assertEquals(kept(y, in, 0, 2, 3), Logged.ids(dir, "Map#0/end"));
            assertEquals(kept(y, out, 0, 4, 7, 9), Logged.ids(dir, "Map#0/send"));
            assertEquals(kept(y, out, 1, 2, 3, 5, 6, 8), Logged.ids(dir, "Map#0/unlinked"));
            assertEquals(y > 1 ? List.of()
                    : List.of(in, out, in, out + 4, in + 2, out + 7, in + 3, out + 9),
                    Logged.ids(dir, "Map#0/links"));
            FlinkAdvice.inputClosed(input);
            FlinkAdvice.outputClosed(output, null);
        } finally {
            Points.configure(new Points.Keep(1, 1), null, null);
        }
    }

    /**
     * Computes ids from the queue's first id and the ordinals, and returns those that are 0 mod y.
     */
    private static List<Long> kept(long y, long first, long... ordinals) {
        return LongStream.of(ordinals).map(o -> first + o)
                .filter(id -> Long.remainderUnsigned(id, y) == 0).boxed().toList();
    }

    private static URLClassLoader flink(String version) throws Exception {
        List<URL> urls = new ArrayList<>();
        try (var jars = Files.newDirectoryStream(
                Path.of(System.getProperty("engines")), "flink*-" + version + ".jar")) {
            for (Path jar : jars) {
                urls.add(jar.toUri().toURL());
            }
        }
        return new URLClassLoader(urls.toArray(new URL[0]));
    }

    private static Object record(ClassLoader flink) throws Exception {
        return flink.loadClass(ELEMENTS + "streamrecord.StreamRecord")
                .getConstructor(Object.class).newInstance("a");
    }

    /** A job of the DataSet interface writes bare records by the same writer. */
    @ParameterizedTest
    @ValueSource(strings = {"1.20.5", "2.3.0"})
    void whatIsNoElementOfAStreamHasNoId(String version) throws Exception {
        try (URLClassLoader flink = flink(version)) {
            Object record = record(flink);
            Object status = flink.loadClass(ELEMENTS + "watermarkstatus.WatermarkStatus")
                    .getConstructor(int.class).newInstance(0);
            Object output = FlinkAdvice.output(new Partition());
            FlinkAdvice.broadcast(output, record);
            FlinkAdvice.sent(output, status, 1);
            assertTrue(FlinkAdvice.numbers(output, 0) && FlinkAdvice.numbers(output, 1));
            FlinkAdvice.sent(output, 5L, 1);
            assertTrue(FlinkAdvice.numbers(output, 0));
            assertFalse(FlinkAdvice.numbers(output, 1));
            FlinkAdvice.broadcast(output, null);
            assertFalse(FlinkAdvice.numbers(output, 0));
            FlinkAdvice.outputClosed(output, null);
        }
    }

    /** A program may write any object, so a cast of the object to an element could throw. */
    @Test
    void noElementIsCast() throws Exception {
        try (InputStream in = FlinkAdvice.class.getResourceAsStream("../flink.yaml")) {
            String set = new String(in.readAllBytes(), StandardCharsets.UTF_8);
            assertFalse(set.contains("as " + ELEMENTS), set);
        }
    }
}
