package io.github.cloudprofiler.agent.advice;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;

/** Asks an engine's objects by reflection, for what is needed once and not for each event. */
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

    /** Whether an object's class is the named one, or inherits from it. */
    static boolean isA(Object o, String className) {
        for (Class<?> c = o.getClass(); c != null; c = c.getSuperclass()) {
            if (c.getName().equals(className)) {
                return true;
            }
        }
        return false;
    }
}
