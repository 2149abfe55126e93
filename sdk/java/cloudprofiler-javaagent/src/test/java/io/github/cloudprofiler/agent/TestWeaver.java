package io.github.cloudprofiler.agent;

import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.List;

/** A class loader that weaves the classes of an engine's jars, and also has a test's program. */
public final class TestWeaver extends EngineJars {
    private final Weaver weaver;
    private String program = "";

    public TestWeaver(String set, String... jars) throws Exception {
        super(jars);
        weaver = new Weaver(List.of(JoinpointSet.ready(set)), false);
    }

    /** Calls a method of a program. */
    public void call(String className, String method, Object... arguments) throws Throwable {
        program = className;
        for (Method m : loadClass(className).getMethods()) {
            if (m.getName().equals(method)) {
                try {
                    m.invoke(null, arguments);
                    return;
                } catch (InvocationTargetException e) {
                    throw e.getCause();
                }
            }
        }
        throw new NoSuchMethodException(method);
    }

    @Override
    protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
        synchronized (getClassLoadingLock(name)) {
            Class<?> c = findLoadedClass(name);
            String path = name.replace('.', '/') + ".class";
            boolean own = findResource(path) != null || name.equals(program)
                    || name.startsWith(program + "$");
            return c != null ? c : own ? define(name, path) : super.loadClass(name, resolve);
        }
    }

    private Class<?> define(String name, String path) throws ClassNotFoundException {
        try (InputStream in = getResource(path).openStream()) {
            byte[] bytes = in.readAllBytes();
            byte[] woven = weaver.transform(
                    this, path.replace(".class", ""), null, null, bytes);
            bytes = woven == null ? bytes : woven;
            return defineClass(name, bytes, 0, bytes.length);
        } catch (IOException e) {
            throw new ClassNotFoundException(name, e);
        }
    }
}
