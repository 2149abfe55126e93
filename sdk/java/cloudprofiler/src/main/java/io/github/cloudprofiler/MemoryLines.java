package io.github.cloudprofiler;

import java.io.IOException;
import java.io.RandomAccessFile;
import java.nio.charset.StandardCharsets;
import java.util.function.Consumer;

/**
 * A file in memory to which the JVM appends lines, for the Java agent. The JVM never waits for a
 * disk or for the reader. The memory of lines that were read is given back to the system. Only one
 * thread at a time may use an object of this class.
 */
public final class MemoryLines implements AutoCloseable {
    private static final int BUFFER_BYTES = 64 << 10;

    private final int descriptor;
    private final RandomAccessFile file;
    private final byte[] buffer = new byte[BUFFER_BYTES];
    private int begun_bytes; // length of the unfinished line at the start of the buffer
    private long read_bytes; // of the file

    /** Makes an empty file. */
    public MemoryLines() throws IOException {
        String refusal = Library.refusal();
        if (refusal != null) {
            throw new IOException(refusal);
        }
        descriptor = Native.memoryFile();
        if (descriptor < 0) {
            throw new IOException("make a file in memory: the system refuses it");
        }
        try {
            file = new RandomAccessFile(path(), "r");
        } catch (IOException e) {
            Native.closeFile(descriptor);
            throw e;
        }
    }

    /** Returns the path at which this process can open the file. */
    public String path() {
        return "/proc/self/fd/" + descriptor;
    }

    /** Gives a consumer each line that was written since the last read, without the character that
     * ends the line. */
    public void read(Consumer<String> line) throws IOException {
        int n;
        while ((n = file.read(buffer, begun_bytes, buffer.length - begun_bytes)) > 0) {
            read_bytes += n;
            int from = 0;
            int length = begun_bytes + n;
            for (int i = begun_bytes; i < length; i++) {
                if (buffer[i] == '\n') {
                    line.accept(new String(buffer, from, i - from, StandardCharsets.UTF_8));
                    from = i + 1;
                }
            }
            begun_bytes = length - from;
            if (begun_bytes == buffer.length) {
                begun_bytes = 0; // skip a line that is longer than any that the agent needs
            }
            System.arraycopy(buffer, from, buffer, 0, begun_bytes);
        }
        Native.forget(descriptor, read_bytes);
    }

    /**
     * Reads this node's counter, as {@link Channel#counter} does. This is a native method, because
     * the foreign function interface takes long to begin.
     */
    public static long counter() {
        return Native.counter();
    }

    @Override
    public void close() throws IOException {
        Native.closeFile(descriptor);
        file.close();
    }
}
