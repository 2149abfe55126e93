package io.github.cloudprofiler.agent.advice;

import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Calls methods of an engine's objects and reads their fields: by reflection if that is needed only
 * once, and by method handles if it is needed for each event.
 */
final class Reach {
    private Reach() {}

    /** Calls a method with the given name and these arguments. */
    static Object call(Object of, String name, Object... arguments)
            throws ReflectiveOperationException {
        for (Class<?> c = of.getClass(); c != null; c = c.getSuperclass()) {
            for (Method m : c.getDeclaredMethods()) {
                if (m.getName().equals(name) && m.getParameterCount() == arguments.length
                        && !m.isBridge()) {
                    m.setAccessible(true);
                    try {
                        return m.invoke(of, arguments);
                    } catch (InvocationTargetException e) {
                        throw new ReflectiveOperationException(name + ": " + e.getCause(), e);
                    }
                }
            }
        }
        throw new NoSuchMethodException(of.getClass().getName() + "." + name);
    }

    /** The handles of a class, by the method's name and the type of its result. */
    private static final ClassValue<Map<String, MethodHandle>> HANDLES = new ClassValue<>() {
        @Override
        protected Map<String, MethodHandle> computeValue(Class<?> type) {
            return new ConcurrentHashMap<>();
        }
    };

    /** Calls a public method without arguments that returns a number. */
    static long number(Object of, String name) throws Throwable {
        return (long) handle(of, name, long.class).invokeExact(of);
    }

    /** Calls a public method without arguments that returns an object. */
    static Object get(Object of, String name) throws Throwable {
        return (Object) handle(of, name, Object.class).invokeExact(of);
    }

    /** Calls a public method with one argument that returns an object. */
    static Object get(Object of, String name, Object argument) throws Throwable {
        return (Object) handle(of, name, Object.class, argument).invokeExact(of, argument);
    }

    private static MethodHandle handle(
            Object of, String name, Class<?> result, Object... arguments)
            throws ReflectiveOperationException {
        Map<String, MethodHandle> handles = HANDLES.get(of.getClass());
        MethodHandle h = handles.get(name);
        if (h == null) {
            Method m = method(of.getClass(), name, arguments);
            m.setAccessible(true); // its class may not be public
            h = MethodHandles.lookup().unreflect(m);
            h = h.asType(MethodType.genericMethodType(1 + arguments.length)
                    .changeReturnType(result));
            handles.put(name, h);
        }
        return h;
    }

    private static Method method(Class<?> of, String name, Object... arguments)
            throws NoSuchMethodException {
        for (Method m : of.getMethods()) {
            if (m.getName().equals(name) && m.getParameterCount() == arguments.length
                    && !m.isBridge() && (arguments.length == 0
                    || m.getParameterTypes()[0].isInstance(arguments[0]))) {
                return m;
            }
        }
        throw new NoSuchMethodException(of.getName() + "." + name);
    }

    /** Returns a field's value. */
    static Object field(Object of, String name) throws ReflectiveOperationException {
        for (Class<?> c = of.getClass(); c != null; c = c.getSuperclass()) {
            for (Field f : c.getDeclaredFields()) {
                if (f.getName().equals(name)) {
                    f.setAccessible(true);
                    return f.get(of);
                }
            }
        }
        throw new NoSuchFieldException(of.getClass().getName() + "." + name);
    }

    /** Returns whether an object's class is the named one, or inherits from it. */
    static boolean isA(Object o, String className) {
        for (Class<?> c = o.getClass(); c != null; c = c.getSuperclass()) {
            if (c.getName().equals(className)) {
                return true;
            }
        }
        return false;
    }
}
