package io.github.cloudprofiler.agent;

import java.lang.instrument.Instrumentation;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Set;

/**
 * Gives this JVM a diagnostic command, as jcmd does from outside. It does not use the JVM's MBean
 * server, because creating the server here would choose its implementation before the program can.
 */
final class Diagnostics {
    private static final String PACKAGE = "com.sun.management.internal";

    private final Object commands;
    private final Method execute;

    Diagnostics(Instrumentation instrumentation) throws ReflectiveOperationException {
        Module module = ModuleLayer.boot().findModule("jdk.management").orElseThrow(() ->
                new ClassNotFoundException("the program runs without the module jdk.management"));
        instrumentation.redefineModule(module, Set.of(), Map.of(),
                Map.of(PACKAGE, Set.of(Diagnostics.class.getModule())), Set.of(), Map.of());
        Class.forName(PACKAGE + ".PlatformMBeanProviderImpl"); // loads the native methods
        Class<?> type = Class.forName(PACKAGE + ".DiagnosticCommandImpl");
        Method get = type.getDeclaredMethod("getDiagnosticCommandMBean");
        get.setAccessible(true);
        commands = get.invoke(null);
        execute = type.getDeclaredMethod("executeDiagnosticCommand", String.class);
        execute.setAccessible(true);
    }

    /** Gives a command, and returns what the JVM prints. */
    String give(String command) throws ReflectiveOperationException {
        try {
            return (String) execute.invoke(commands, command);
        } catch (InvocationTargetException e) {
            throw new ReflectiveOperationException(command + ": " + e.getCause(), e.getCause());
        }
    }
}
