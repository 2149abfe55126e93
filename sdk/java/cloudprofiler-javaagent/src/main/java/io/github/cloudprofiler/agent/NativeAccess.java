package io.github.cloudprofiler.agent;

import java.lang.instrument.Instrumentation;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Set;

/**
 * Lets this class's module call native code, so that Java 24 and later do not warn. The manifest of
 * an agent has no entry that would do this.
 */
final class NativeAccess {
    private NativeAccess() {}

    static void allow(Instrumentation instrumentation) {
        Module own = NativeAccess.class.getModule();
        if (Runtime.version().feature() < 22) {
            return;
        }
        try {
            Module base = Object.class.getModule();
            instrumentation.redefineModule(base, Set.of(), Map.of(),
                    Map.of("java.lang", Set.of(own)), Set.of(), Map.of());
            Method allow = Module.class.getDeclaredMethod("implAddEnableNativeAccess");
            allow.setAccessible(true);
            if (own.isNamed()) {
                allow.invoke(own);
            } else {
                Method unnamed = Module.class.getDeclaredMethod(
                        "implAddEnableNativeAccessToAllUnnamed");
                unnamed.setAccessible(true);
                unnamed.invoke(null);
            }
        } catch (ReflectiveOperationException | RuntimeException e) {
            // Then Java warns once, and the calls work all the same.
        }
    }
}
