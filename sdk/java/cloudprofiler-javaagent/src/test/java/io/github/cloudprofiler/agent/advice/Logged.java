package io.github.cloudprofiler.agent.advice;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Reads what is in the rings of a directory that nobody drains. */
final class Logged {
    private static final int RECORDS = 2 * 4096; // ring/FORMAT.md has this and the offsets below
    private static final int TAIL = 4096;
    private static final int NAME_BYTES = 99;
    private static final int NAME = 104;

    private Logged() {}

    /**
     * A record of a ring. A link is two of them: one with the parent's id, one with the child's.
     */
    record Event(long stamp, long id) {}

    /** Returns what was logged, by the channels' names. */
    static Map<String, List<Event>> in(Path dir) throws IOException {
        Map<String, List<Event>> all = new HashMap<>();
        try (var files = Files.newDirectoryStream(dir, "*.ring")) {
            for (Path file : files) {
                ByteBuffer b = ByteBuffer.wrap(Files.readAllBytes(file))
                        .order(ByteOrder.LITTLE_ENDIAN);
                byte[] name = new byte[b.get(NAME_BYTES)];
                b.get(NAME, name);
                List<Event> events = all.computeIfAbsent(
                        new String(name, StandardCharsets.UTF_8), n -> new ArrayList<>());
                for (int i = 0; i < b.getLong(TAIL); i++) {
                    events.add(new Event(b.getLong(RECORDS + 16 * i),
                            b.getLong(RECORDS + 16 * i + 8)));
                }
            }
        }
        return all;
    }

    /** Returns the ids of a channel. */
    static List<Long> ids(Path dir, String channel) throws IOException {
        return in(dir).getOrDefault(channel, List.of()).stream().map(Event::id).toList();
    }
}
