package io.github.cloudprofiler;

import static java.lang.invoke.MethodType.methodType;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Loads of a ring's switching word, from memory that the native library has mapped. Each load
 * happens: the JIT must not move it out of a loop. A channel has its word as a direct buffer and as
 * an address.
 *
 * <p>Until Java 23, loads use the address and sun.misc.Unsafe, which takes half as long. Later
 * versions print a warning about that, and need less time for the buffer.
 */
final class Word {
    private static final VarHandle IN_BUFFER =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    /** Loads from an address, (long)long, or null if the buffer must do. */
    private static final MethodHandle AT_ADDRESS;

    /** A word that is always 0, for channels without a ring. */
    static final ByteBuffer ZERO = ByteBuffer.allocateDirect(Long.BYTES);
    static final long ZERO_ADDRESS;

    static {
        MethodHandle load = null;
        long zero = 0;
        if (Runtime.version().feature() < 24) {
            try {
                Class<?> c = Class.forName("sun.misc.Unsafe");
                Field field = c.getDeclaredField("theUnsafe");
                field.setAccessible(true);
                Object unsafe = field.get(null);
                zero = (long) c.getMethod("allocateMemory", long.class).invoke(unsafe, Long.BYTES);
                c.getMethod("putLong", long.class, long.class).invoke(unsafe, zero, 0L);
                MethodHandle at = MethodHandles.publicLookup().findVirtual(c, "getLongVolatile",
                        methodType(long.class, Object.class, long.class));
                load = MethodHandles.insertArguments(at, 0, unsafe, null);
            } catch (ReflectiveOperationException | RuntimeException e) {
                // A JVM without the module jdk.unsupported: use the buffer.
            }
        }
        AT_ADDRESS = load;
        ZERO_ADDRESS = zero;
    }

    private Word() {}

    static long load(ByteBuffer word, long address) {
        if (AT_ADDRESS == null) {
            return (long) IN_BUFFER.getOpaque(word, 0);
        }
        try {
            return (long) AT_ADDRESS.invokeExact(address);
        } catch (Throwable e) {
            throw Calls.impossible(e);
        }
    }
}
