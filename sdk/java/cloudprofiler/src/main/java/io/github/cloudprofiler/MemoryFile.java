package io.github.cloudprofiler;

import static java.lang.invoke.MethodType.methodType;

import java.lang.invoke.MethodHandle;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * Loads a library from a file that is only in memory, for machines where no directory is
 * executable. It needs the foreign function interface, and so Java 21.
 */
final class MemoryFile {
    private static final int CLOEXEC = 1; // of memfd_create

    private MemoryFile() {}

    static void load(byte[] library) throws Throwable {
        if (Runtime.version().feature() < 21) {
            throw new UnsupportedOperationException("needs Java 21");
        }
        Foreign c = new Foreign();
        MethodHandle create = c.ordinary("memfd_create",
                methodType(int.class, long.class, int.class));
        MethodHandle close = c.ordinary("close", methodType(int.class, int.class));
        ByteBuffer name = ByteBuffer.allocateDirect(1); // a NUL: the empty name
        int fd = (int) create.invokeExact(c.addressOf(name), CLOEXEC);
        if (fd < 0) {
            throw new UnsupportedOperationException("memfd_create failed");
        }
        try {
            Path file = Path.of("/proc/self/fd/" + fd);
            Files.write(file, library);
            System.load(file.toString());
        } finally {
            int unused = (int) close.invokeExact(fd);
        }
    }
}
