package io.github.cloudprofiler;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.io.FileOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class MemoryLinesTest {
    @Test
    void givesEachLineOnce() throws Exception {
        try (MemoryLines lines = new MemoryLines();
                FileOutputStream out = new FileOutputStream(lines.path(), true)) {
            List<String> wanted = new ArrayList<>();
            List<String> got = new ArrayList<>();
            for (int i = 0; i < 20_000; i++) {
                String line = i + "x".repeat(i % 200);
                wanted.add(line);
                byte[] bytes = (line + "\n").getBytes(StandardCharsets.UTF_8);
                int half = bytes.length / 2;
                out.write(bytes, 0, half);
                if (i % 7 == 0) {
                    lines.read(got::add);
                }
                out.write(bytes, half, bytes.length - half);
            }
            lines.read(got::add);
            assertEquals(wanted, got);
            out.write("y".repeat(200_000).getBytes(StandardCharsets.UTF_8));
            out.write("\nafter\n".getBytes(StandardCharsets.UTF_8));
            got.clear();
            lines.read(got::add);
            assertEquals("after", got.get(got.size() - 1));
        }
    }
}
