package io.github.cloudprofiler.agent.advice;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The advice, with objects that have those members of Flink's that it uses. */
class FlinkAdviceTest {
    /** The name of a channel: its index counts within one gate. */
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
}
