package io.github.cloudprofiler.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.cloudprofiler.agent.PauseLines.Pause;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class PauseLinesTest {
    /** A simulated JVM: its log, and the true times of its pauses. */
    private static final class Jvm {
        final List<String> lines = new ArrayList<>();
        final List<long[]> truth = new ArrayList<>();
        long now_ns = 1_000_000_000;
        long end_ns = now_ns;

        /**
         * Makes a pause. The JVM writes two lines before the pause begins (earlier by early_ns),
         * and the pause's own line after its end (later by late_ns).
         */
        void pause(long run_ns, long early_ns, long reach_ns, long total_ns, long late_ns) {
            long begin = end_ns + run_ns;
            long since = begin - end_ns;
            end_ns = begin + total_ns;
            lines.add("[" + (begin - early_ns) + "ns] Adding VM operation: ZMarkStart");
            lines.add("[" + (begin - early_ns) + "ns] Executing safepoint VM operation: ZMarkStart"
                    + " (Warmup)");
            lines.add("[" + (end_ns + late_ns) + "ns] Safepoint \"ZMarkStart\", Time since last: "
                    + since + " ns, Reaching safepoint: " + reach_ns + " ns, At safepoint: 9 ns, "
                    + "Leaving safepoint: 1 ns, Total: " + total_ns + " ns, Threads: 0 runnable");
            truth.add(new long[] {begin, begin + reach_ns, end_ns});
        }
    }

    @Test
    void theTruthIsWithinTheBound() {
        Random random = new Random(7);
        Jvm jvm = new Jvm();
        for (int i = 0; i < 500; i++) {
            long total_ns = 1 + random.nextInt(1_000_000);
            jvm.pause(10_000 + random.nextInt(1_000_000), 800 + random.nextInt(20_000),
                    random.nextInt((int) total_ns), total_ns, 300 + random.nextInt(20_000));
        }
        PauseLines log = new PauseLines();
        jvm.lines.forEach(log::take);
        List<Pause> pauses = log.pauses();
        assertEquals(jvm.truth.size(), pauses.size());
        for (int i = 0; i < pauses.size(); i++) {
            Pause p = pauses.get(i);
            long[] truth = jvm.truth.get(i);
            long[] said = {p.begin_ns(), p.stopped_ns(), p.end_ns()};
            for (int k = 0; k < said.length; k++) {
                assertTrue(Math.abs(said[k] - truth[k]) <= p.bound_ns(),
                        i + ": " + said[k] + " is not " + truth[k] + " ± " + p.bound_ns());
            }
            assertTrue(p.bound_ns() < 1000, "the chain narrows the bound: " + p.bound_ns());
        }
        assertEquals(0, log.broken());
    }

    @Test
    void aLineThatIsMissingBreaksTheChain() {
        Jvm jvm = new Jvm();
        for (int i = 0; i < 10; i++) {
            jvm.pause(1_000_000, 1000, 100, 50_000, 1000);
        }
        jvm.lines.subList(15, 18).clear(); // the sixth pause
        jvm.truth.remove(5);
        PauseLines log = new PauseLines();
        jvm.lines.forEach(log::take);
        List<Pause> pauses = log.pauses();
        assertEquals(1, log.broken());
        assertEquals(9, pauses.size());
        for (int i = 0; i < pauses.size(); i++) {
            assertTrue(Math.abs(pauses.get(i).begin_ns() - jvm.truth.get(i)[0])
                    <= pauses.get(i).bound_ns());
        }
    }

    @Test
    void readsTheLinesOfEachRelease() {
        String[] releases = {
            "[5000ns] Evaluating  safepoint VM operation: Cleanup\n[9000ns] Safepoint \"Cleanup\", "
                + "Time since last: 70 ns, Reaching safepoint: 30 ns, Cleanup: 5 ns, "
                + "At safepoint: 100 ns, Total: 135 ns",
            "[5000ns] Executing safepoint VM operation: Cleanup\n[9000ns] Safepoint \"Cleanup\", "
                + "Time since last: 70 ns, Reaching safepoint: 30 ns, At safepoint: 100 ns, "
                + "Leaving safepoint: 5 ns, Total: 135 ns, Threads: 1 runnable, 10 total"};
        for (String release : releases) {
            PauseLines log = new PauseLines();
            release.lines().forEach(log::take);
            Pause p = log.pauses().get(0);
            assertEquals("Cleanup", p.operation());
            assertEquals(30, p.stopped_ns() - p.begin_ns());
            assertEquals(135, p.end_ns() - p.begin_ns());
            assertEquals((9000 - 135 - 5000) / 2.0 + 1, p.bound_ns(), 1);
            assertTrue(p.begin_ns() >= 5000 && p.end_ns() <= 9000);
        }
    }

    @Test
    void passesOverWhatItDoesNotKnow() {
        PauseLines log = new PauseLines();
        for (String line : new String[] {"", "[1ns] ", "[99999999999999999999ns] Safepoint \"\", ",
            "[1ns] Safepoint \"X\", Total: 5 ns", "Safepoint \"X\"",
            "[1ns] Safepoint \"X\", Time since last: 1 ns, Reaching safepoint: x ns, "
                + "Total: 1 ns"}) {
            log.take(line);
        }
        assertEquals(List.of(), log.pauses());
    }

    @Test
    void numbersAreThoseOfTheFormat() throws Exception {
        String format = Files.readString(Path.of("FORMAT.md"));
        List<String> rows = new ArrayList<>();
        for (int i = 0; i < PauseKinds.COLLECTIONS.size(); i++) {
            rows.add("| " + (1 + i) + " | " + PauseKinds.COLLECTIONS.get(i) + " |");
        }
        for (int i = 0; i < PauseKinds.OTHERS.size(); i++) {
            rows.add("| " + (129 + i) + " | " + PauseKinds.OTHERS.get(i) + " |");
        }
        List<String> said = format.lines().filter(l -> l.matches("\\| [1-9]\\d* \\| \\w+ \\|"))
                .toList();
        assertEquals(rows, said);
        assertEquals(0, PauseKinds.of("SomethingNew"));
        assertEquals(129, PauseKinds.of("Cleanup"));
        int kind = PauseKinds.of("ForceSafepoint");
        assertEquals(0x0000_0007_0102_0182L, Pauses.id(7, 257.2, 1, kind));
        assertEquals(0x0000_0000_FFFF_0200L, Pauses.id(0, 1e9, 2, 0));
    }
}
