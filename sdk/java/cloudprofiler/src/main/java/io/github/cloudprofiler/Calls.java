package io.github.cloudprofiler;

import static java.lang.invoke.MethodType.methodType;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;

/**
 * The calls into the native library that a log call makes. The handles are constants, so the JIT
 * compiles a call of a handle to a call of the C function.
 *
 * <p>From Java 21 on, the handles call C functions by the foreign function interface, as critical
 * calls. Those cost almost nothing, but no safepoint can begin while one runs. So these functions
 * never wait: if they do not return 0, {@link Native#keep} must write the record. Java 17 has no
 * such interface, so there the handles call native methods. Except for MADE, these native methods
 * wait for room if necessary, and return 0.
 */
final class Calls {
    static final MethodHandle LOG;
    static final MethodHandle LOG_AT;
    static final MethodHandle LINK;
    static final MethodHandle COUNTER;
    static final MethodHandle MADE;

    /** Whether the calls are critical. */
    static final boolean CRITICAL;

    static {
        MethodType log = methodType(int.class, long.class, long.class);
        MethodType three = methodType(int.class, long.class, long.class, long.class);
        MethodType counter = methodType(long.class);
        MethodType four =
                methodType(int.class, long.class, long.class, long.class, long.class);
        MethodHandle[] handles = null;
        try {
            Foreign c = new Foreign();
            long[] at = Native.hurried();
            handles = new MethodHandle[] {c.critical(at[0], log), c.critical(at[1], three),
                c.critical(at[2], three), c.critical(at[3], counter),
                c.critical(at[4], four)};
        } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
            // This JVM lacks the interface, or forbids it: use native methods.
        }
        CRITICAL = handles != null;
        try {
            MethodHandles.Lookup own = MethodHandles.lookup();
            LOG = CRITICAL ? handles[0] : own.findStatic(Native.class, "log", log);
            LOG_AT = CRITICAL ? handles[1] : own.findStatic(Native.class, "logAt", three);
            LINK = CRITICAL ? handles[2] : own.findStatic(Native.class, "link", three);
            COUNTER = CRITICAL ? handles[3] : own.findStatic(Native.class, "counter", counter);
            MADE = CRITICAL ? handles[4] : own.findStatic(Native.class, "made", four);
        } catch (ReflectiveOperationException e) {
            throw new AssertionError(e); // they are in this package
        }
    }

    private Calls() {}

    /** Returns what a call threw, as an error. The C functions throw nothing, so the JVM did. */
    static Error impossible(Throwable e) {
        return e instanceof Error ? (Error) e : new AssertionError(e);
    }
}
