package io.github.cloudprofiler;

import java.nio.ByteBuffer;

/**
 * The methods of the native library, in cloudprofiler-native/src/glue.c. These methods take a
 * channel, or ids, as an address in native memory. Before a call, {@link Library} must have loaded
 * the library.
 */
final class Native {
    private Native() {}

    static native long open(byte[] name, byte[] handler, long[] numbers, byte[] policy,
            byte[] stamp, byte[] dir, boolean shared, byte[][] why);

    static native byte[] path(long channel);

    static native ByteBuffer word(long channel);

    static native long wordAddress(long channel);

    static native void adopt(long channel, long[] settings);

    static native int log(long channel, long id);

    static native int logAt(long channel, long counter, long id);

    static native int link(long channel, long parent, long child);

    static native int made(long channel, long links, long parent, long child);

    static native long counter();

    static native void keep(long channel, long id, long second, int n, long given);

    static native long[] hurried();

    static native long dropped(long channel);

    static native void snapshot(long channel);

    static native void retire(long channel);

    static native void free(long channel);

    static native long openIds(byte[] dir, int instance, byte[][] why);

    static native long nextId(long ids);

    static native boolean randomNode(long ids);

    static native void closeIds(long ids);

    static native int memoryFile();

    static native void forget(int descriptor, long read_bytes);

    static native void closeFile(int descriptor);
}
