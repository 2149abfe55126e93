package io.github.cloudprofiler;

import static java.lang.invoke.MethodType.methodType;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.invoke.VarHandle;
import java.lang.reflect.Array;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.NoSuchElementException;
import java.util.Optional;

/**
 * The foreign function interface, java.lang.foreign. This class finds the interface by reflection,
 * so the class compiles with Java 17, which lacks the interface. In Java 21 the interface is a
 * preview, which programs may use by reflection without a flag.
 */
final class Foreign {
    private final Class<?> linkerClass = foreign("Linker");
    private final Class<?> option = foreign("Linker$Option");
    private final Class<?> function = foreign("FunctionDescriptor");
    private final Class<?> segment = foreign("MemorySegment");
    private final Class<?> layout = foreign("MemoryLayout");
    private final Object linker = linkerClass.getMethod("nativeLinker").invoke(null);

    Foreign() throws ReflectiveOperationException {}

    private static Class<?> foreign(String name) throws ClassNotFoundException {
        return Class.forName("java.lang.foreign." + name);
    }

    /** Returns a handle for critical calls of a function that takes and returns int and long. */
    MethodHandle critical(long address, MethodType type) throws ReflectiveOperationException {
        Object options = Array.newInstance(option, 1);
        Array.set(options, 0, criticalOption());
        return handle(address, type, options);
    }

    /** Returns a handle for ordinary calls of a function of libc. */
    MethodHandle ordinary(String name, MethodType type) throws ReflectiveOperationException {
        Object lookup = linkerClass.getMethod("defaultLookup").invoke(linker);
        Optional<?> found = (Optional<?>) foreign("SymbolLookup").getMethod("find", String.class)
                .invoke(lookup, name);
        if (found.isEmpty()) {
            throw new NoSuchElementException("libc has no " + name);
        }
        long address = (long) segment.getMethod("address").invoke(found.get());
        return handle(address, type, Array.newInstance(option, 0));
    }

    /** Returns the address of a direct buffer's first byte. */
    long addressOf(ByteBuffer direct) throws ReflectiveOperationException {
        Object view = segment.getMethod("ofBuffer", java.nio.Buffer.class).invoke(null, direct);
        return (long) segment.getMethod("address").invoke(view);
    }

    /**
     * Returns a handle that loads a long from an address: (long)long. It loads from a constant
     * segment that covers all memory. The handle needs Java 22.
     */
    MethodHandle load() throws ReflectiveOperationException {
        Object nothing = segment.getField("NULL").get(null);
        Object all = segment.getMethod("reinterpret", long.class).invoke(nothing, Long.MAX_VALUE);
        Class<?> element = foreign("MemoryLayout$PathElement");
        VarHandle at = (VarHandle) layout.getMethod("varHandle", element.arrayType())
                .invoke(layoutOf(long.class), Array.newInstance(element, 0));
        MethodHandle load = MethodHandles.insertArguments(
                at.toMethodHandle(VarHandle.AccessMode.GET_OPAQUE), 0, all);
        return MethodHandles.filterArguments(load, 0, MethodHandles.lookup().findStatic(
                Foreign.class, "aligned", methodType(long.class, long.class)));
    }

    /**
     * Returns the given address of a long. The mask changes nothing, but tells the JIT that the
     * address is aligned and not too large. So the JIT drops both checks.
     */
    private static long aligned(long address) {
        return address & 0x00ff_ffff_ffff_fff8L;
    }

    private Object criticalOption() throws ReflectiveOperationException {
        try {
            return option.getMethod("critical", boolean.class).invoke(null, false);
        } catch (NoSuchMethodException e) {
            return option.getMethod("isTrivial").invoke(null); // the option's name in Java 21
        }
    }

    private MethodHandle handle(long address, MethodType type, Object options)
            throws ReflectiveOperationException {
        Object arguments = Array.newInstance(layout, type.parameterCount());
        for (int i = 0; i < type.parameterCount(); i++) {
            Array.set(arguments, i, layoutOf(type.parameterType(i)));
        }
        Method of = function.getMethod("of", layout, layout.arrayType());
        Object descriptor = of.invoke(null, layoutOf(type.returnType()), arguments);
        Object at = segment.getMethod("ofAddress", long.class).invoke(null, address);
        return (MethodHandle) linkerClass.getMethod("downcallHandle", segment, function,
                options.getClass()).invoke(linker, at, descriptor, options);
    }

    private static Object layoutOf(Class<?> type) throws ReflectiveOperationException {
        return foreign("ValueLayout").getField(type == int.class ? "JAVA_INT" : "JAVA_LONG")
                .get(null);
    }
}
