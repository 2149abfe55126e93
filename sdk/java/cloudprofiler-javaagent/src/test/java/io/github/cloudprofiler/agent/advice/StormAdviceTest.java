package io.github.cloudprofiler.agent.advice;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotSame;
import static org.junit.jupiter.api.Assertions.assertSame;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tests the advice with objects that have the members of Storm's classes that it uses. */
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

    /** Tuples without an id are counted, except those that Storm itself sends. */
    @Test
    void tuplesThatAreNotAnchoredAreCounted(@TempDir Path dir) throws Exception {
        Points.configure(new Points.Keep(1, 1), null, dir.toString());
        try {
            Object transfer = StormAdvice.transfer();
            Object queue = new Object();
            StormAdvice.sent(transfer, new Tuple("a"), 3, "default", Map.of(), queue);
            StormAdvice.sent(transfer, new Tuple("b"), 4, "__tick", Map.of(), queue);
            StormAdvice.sent(transfer, new Tuple("c"), 5, "default", Map.of(), null);
            StormAdvice.sent(transfer, new Tuple("d"), 6, "default", Map.of(7L, 8L), queue);
            assertEquals(List.of("a#3~unanchored", "d#6~send"), rings(dir));
        } finally {
            Points.configure(new Points.Keep(1, 1), null, null);
        }
    }

    private static List<String> rings(Path dir) throws Exception {
        try (var files = Files.list(dir)) {
            return files.map(f -> f.getFileName().toString()).filter(f -> f.endsWith(".ring"))
                    .map(f -> f.replaceFirst("\\.[0-9a-f]+\\.ring$", "")).sorted().toList();
        }
    }
}
