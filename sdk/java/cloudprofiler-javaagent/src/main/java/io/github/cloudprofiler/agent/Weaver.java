package io.github.cloudprofiler.agent;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.objectweb.asm.Type;

/** Changes classes when they are loaded. A class that cannot be changed stays as it is. */
final class Weaver implements ClassFileTransformer {
    private final Map<String, List<JoinpointSet>> setsOf = new HashMap<>(); // by internal name
    private final Map<String, Boolean> verdicts = new HashMap<>(); // by set and loader
    private final boolean anyVersion;

    Weaver(List<JoinpointSet> sets, boolean anyVersion) {
        this.anyVersion = anyVersion;
        for (JoinpointSet s : sets) {
            for (Joinpoint j : s.joinpoints()) {
                List<JoinpointSet> of =
                        setsOf.computeIfAbsent(j.internalName(), n -> new ArrayList<>());
                if (!of.contains(s)) {
                    of.add(s);
                }
            }
        }
    }

    @Override
    public byte[] transform(
            ClassLoader loader, String name, Class<?> redefined, ProtectionDomain domain,
            byte[] bytes) {
        if (name == null || redefined != null || !setsOf.containsKey(name)) {
            return null;
        }
        try {
            return weave(loader, name, bytes);
        } catch (Throwable t) {
            Say.once(name.replace('/', '.') + " is left alone: " + t);
            return null;
        }
    }

    private byte[] weave(ClassLoader loader, String name, byte[] bytes) {
        ClassFacts facts = new ClassFacts(path -> loader == null
                ? ClassLoader.getSystemResourceAsStream(path) : loader.getResourceAsStream(path));
        facts.add(ClassFacts.of(bytes));
        byte[] woven = bytes;
        for (JoinpointSet set : setsOf.get(name)) {
            if (!fits(set, loader, facts)) {
                continue;
            }
            woven = new ClassWeaver(facts, name, set).weave(woven);
        }
        return woven == bytes ? null : woven;
    }

    private synchronized boolean fits(JoinpointSet set, ClassLoader loader, ClassFacts facts) {
        String key = set.name() + "@" + System.identityHashCode(loader);
        return verdicts.computeIfAbsent(key, k -> {
            List<String> problems = new ArrayList<>();
            if (!seesUs(loader)) {
                problems.add("its class loader does not find the agent's classes");
            } else {
                problems.addAll(new Fitness(facts, loader, anyVersion).problems(set));
            }
            if (!problems.isEmpty()) {
                Say.once(set.name() + ": left alone: " + problems.get(0) + (problems.size() == 1
                        ? "" : ", and " + (problems.size() - 1) + " more"));
            }
            return problems.isEmpty();
        });
    }

    private static boolean seesUs(ClassLoader loader) {
        try {
            return Class.forName(Say.class.getName(), false, loader) == Say.class;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    /** Returns the methods of a class that a joinpoint means. */
    static List<ClassFacts.Member> methods(ClassFacts facts, Joinpoint j) {
        List<ClassFacts.Member> found = new ArrayList<>();
        for (ClassFacts.Member m : facts.find(j.internalName()).methods().values()) {
            boolean synthetic = (m.access() & 0x1000) != 0;
            if (m.name().equals(j.methodName()) && !synthetic
                    && j.hasParametersOf(m.descriptor())) {
                found.add(m);
            }
        }
        return found;
    }

    /** Returns a compiler for a joinpoint in a method. */
    static Compiler compiler(ClassFacts facts, Joinpoint j, ClassFacts.Member m, int stateSlot) {
        Type result = j.atExit() ? Type.getReturnType(m.descriptor()) : Type.VOID_TYPE;
        return new Compiler(facts, j.internalName(), m.isStatic(),
                Type.getArgumentTypes(m.descriptor()), result, stateSlot);
    }
}
