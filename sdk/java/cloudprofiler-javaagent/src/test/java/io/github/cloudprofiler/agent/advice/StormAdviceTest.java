package io.github.cloudprofiler.agent.advice;

import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import org.junit.jupiter.api.Test;

/** The advice, with objects that have those members of Storm's that it uses. */
class StormAdviceTest {
    private record Tuple(String getSourceComponent) {}

    @Test
    void topologiesOfOneMachineDoNotShareTheirTasks() throws Exception {
        Object a = StormAdvice.transfer();
        Object b = StormAdvice.transfer();
        Object spout = StormAdvice.channel(a, new Tuple("spout"), 3);
        Object split = StormAdvice.channel(a, new Tuple("split"), 4);
        assertNotSame(spout, split);
        assertSame(spout, StormAdvice.channel(a, new Tuple("spout"), 3));
        assertNotSame(spout, StormAdvice.channel(b, new Tuple("other"), 3));
        assertSame(split, StormAdvice.channel(a, new Tuple("split"), 4));
    }
}
