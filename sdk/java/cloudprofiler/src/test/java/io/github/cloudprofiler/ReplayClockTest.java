package io.github.cloudprofiler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import org.junit.jupiter.api.Test;

/** The clock gives the same results as the clock in Go, which wrote them into the script. */
class ReplayClockTest {
    private static final Path SCRIPT = Path.of("../../../replay/clock/testdata/conformance.txt");

    @Test
    void passesTheScript() throws IOException {
        ReplayClock[] clocks = new ReplayClock[256];
        long epsilon = 0;
        int passed = 0;
        for (String line : Files.readAllLines(SCRIPT)) {
            String[] w = line.split(" ");
            if (w[0].equals("system")) {
                epsilon = Long.parseLong(w[1]);
                for (int p = 0; p < 256; p++) {
                    clocks[p] = new ReplayClock(p, epsilon);
                }
                continue;
            }
            if (w[0].equals("#")) {
                continue;
            }
            switch (w[0]) {
                case "local" -> {
                    ReplayClock c = clocks[Integer.parseInt(w[1])];
                    c.local(Long.parseLong(w[2]));
                    assertEquals(w[3], HexFormat.of().formatHex(c.stamp().toBytes(epsilon)), line);
                }
                case "receive" -> {
                    ReplayClock c = clocks[Integer.parseInt(w[1])];
                    boolean kept = c.receive(Long.parseLong(w[2]), stamp(w[3], epsilon));
                    assertEquals(w[4].equals("1"), kept, line);
                    assertEquals(w[5], HexFormat.of().formatHex(c.stamp().toBytes(epsilon)), line);
                }
                case "compare" -> assertEquals(Integer.parseInt(w[3]),
                        stamp(w[1], epsilon).compare(stamp(w[2], epsilon), epsilon), line);
                case "bad" -> {
                    long e = epsilon;
                    assertThrows(IllegalArgumentException.class, () -> new ReplayClock.Stamp()
                            .read(HexFormat.of().parseHex(w[1]), e), line);
                }
                default -> throw new IllegalStateException(line);
            }
            passed++;
        }
        assertTrue(passed >= 500, "only " + passed + " lines passed");
    }

    private static ReplayClock.Stamp stamp(String hex, long epsilon) {
        byte[] bytes = HexFormat.of().parseHex(hex);
        ReplayClock.Stamp s = new ReplayClock.Stamp();
        assertThrows(IllegalArgumentException.class,
                () -> s.read(java.util.Arrays.copyOf(bytes, bytes.length - 8), epsilon));
        assertEquals(bytes.length, s.read(bytes, epsilon));
        return s;
    }
}
