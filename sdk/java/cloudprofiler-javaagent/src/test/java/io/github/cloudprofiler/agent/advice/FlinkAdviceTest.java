package io.github.cloudprofiler.agent.advice;

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
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests the advice with objects that have the members of Flink's classes that it uses. */
class FlinkAdviceTest {
    private static final String ELEMENTS = "org.apache.flink.streaming.runtime.";

    /** Flink's name of a channel. Each gate counts its channels from 0. */
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

    private static final class Partition {
        String getPartitionId() {
            return "partition";
        }

        int getNumberOfSubpartitions() {
            return 2;
        }

        String getOwningTaskName() {
            return "Map (2/2)#0 (b_0_0)";
        }
    }

    /** The writer of such an output has no state: only the partition has. */
    @Test
    void anOutputThatWasOnlyRestoredIsClosed() throws Exception {
        Partition partition = new Partition();
        FlinkAdvice.restored(FlinkAdvice.output(partition), 0);
        assertTrue(FlinkAdvice.isOpen("partition"));
        FlinkAdvice.outputClosed(null, partition);
        assertFalse(FlinkAdvice.isOpen("partition"));
        FlinkAdvice.outputClosed(null, partition); // a second time, too
    }

    /** A job of the DataSet interface writes bare records by the same writer. */
    @ParameterizedTest
    @ValueSource(strings = {"1.20.5", "2.3.0"})
    void whatIsNoElementOfAStreamHasNoId(String version) throws Exception {
        List<URL> urls = new ArrayList<>();
        try (var jars = Files.newDirectoryStream(
                Path.of(System.getProperty("engines")), "flink*-" + version + ".jar")) {
            for (Path jar : jars) {
                urls.add(jar.toUri().toURL());
            }
        }
        try (URLClassLoader flink = new URLClassLoader(urls.toArray(new URL[0]))) {
            Object record = flink.loadClass(ELEMENTS + "streamrecord.StreamRecord")
                    .getConstructor(Object.class).newInstance("a");
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

    /** A program may write any object, so a cast to an element would throw. */
    @Test
    void noElementIsCast() throws Exception {
        try (InputStream in = FlinkAdvice.class.getResourceAsStream("../flink.yaml")) {
            String set = new String(in.readAllBytes(), StandardCharsets.UTF_8);
            assertFalse(set.contains("as " + ELEMENTS), set);
        }
    }
}
