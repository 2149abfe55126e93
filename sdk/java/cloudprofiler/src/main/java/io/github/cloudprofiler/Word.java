package io.github.cloudprofiler;

import static java.lang.invoke.MethodType.methodType;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Field;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Loads a ring's switching word from memory that the native library has mapped. Every load takes
 * place: the JIT must not move one out of a loop. A channel has its word as a direct buffer and as
 * an address.
 *
 * <p>A load from an address takes half as long as one from a buffer. Java 22 and later load from an
 * address by the foreign memory interface, and earlier versions by sun.misc.Unsafe, about which
 * later versions warn. The buffer is for JVMs in which neither of these works.
 */
final class Word {
    private static final VarHandle IN_BUFFER =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

    /** Loads from an address, (long)long; null if this JVM can load only from the buffer. */
    private static final MethodHandle AT_ADDRESS;

    /** A word that is always 0, for channels without a ring. */
    static final ByteBuffer ZERO = ByteBuffer.allocateDirect(Long.BYTES);
    static final long ZERO_ADDRESS;

    static {
        MethodHandle load = null;
        long zero = 0;
        try {
            if (Runtime.version().feature() < 22) {
                Object unsafe = unsafe();
                Class<?> c = unsafe.getClass();
                zero = (long) c.getMethod("allocateMemory", long.class).invoke(unsafe, Long.BYTES);
                c.getMethod("putLong", long.class, long.class).invoke(unsafe, zero, 0L);
                load = MethodHandles.insertArguments(MethodHandles.publicLookup().findVirtual(c,
                        "getLongVolatile", methodType(long.class, Object.class, long.class)), 0,
                        unsafe, null);
            } else {
                Foreign c = new Foreign();
                zero = c.addressOf(ZERO);
                load = c.load();
            }
        } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
            // This JVM lacks the module jdk.unsupported, or forbids native access.
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

    private static Object unsafe() throws ReflectiveOperationException {
        Field field = Class.forName("sun.misc.Unsafe").getDeclaredField("theUnsafe");
        field.setAccessible(true);
        return field.get(null);
    }
}
