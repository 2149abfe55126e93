package io.github.cloudprofiler.agent;

import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Random;
import org.junit.jupiter.api.Test;

class ClockMapTest {
    private double cycles = 5e12;
    private double ns = 3e9;
    private double rate = 2.7; // cycles in a ns

    private void pass(double by_cycles) {
        cycles += by_cycles;
        ns += by_cycles / rate;
    }

    @Test
    void theTruthIsWithinTheBoundThoughTheRateChanges() {
        Random random = new Random(3);
        ClockMap map = new ClockMap(() -> {
            pass(20 + random.nextInt(200));
            return (long) ns;
        }, () -> {
            pass(20 + random.nextInt(200));
            return (long) cycles;
        });
        map.look();
        assertNull(map.at((long) ns, 0));
        long missed = 0;
        for (int i = 0; i < 2000; i++) {
            double at_ns = 0;
            double at_cycles = 0;
            int change = i % 4 == 0 ? random.nextInt(10) : -1;
            int moment = random.nextInt(10);
            for (int k = 0; k < 10; k++) {
                if (k == change) {
                    rate *= 1 + (random.nextDouble() - 0.5) / 1000;
                }
                if (k == moment) {
                    at_ns = ns;
                    at_cycles = cycles;
                }
                pass(5e6);
            }
            map.look();
            ClockMap.Moment m = map.at((long) at_ns, 1);
            if (m == null) {
                missed++;
                continue;
            }
            assertTrue(Math.abs(m.at_cycles() - at_cycles) <= m.bound_cycles(),
                    i + ": off by " + (m.at_cycles() - at_cycles) + " ± " + m.bound_cycles());
            assertTrue(change >= 0 || i % 4 == 1 || m.bound_cycles() < 2000,
                    i + ": " + m.bound_cycles());
        }
        assertTrue(missed <= 1, missed + " moments have no place");
    }
}
