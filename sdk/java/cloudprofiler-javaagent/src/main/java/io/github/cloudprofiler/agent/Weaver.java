package io.github.cloudprofiler.agent;

import java.lang.instrument.ClassFileTransformer;
import java.lang.ref.ReferenceQueue;
import java.lang.ref.WeakReference;
import java.security.ProtectionDomain;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.objectweb.asm.Type;

/** Changes classes when they are loaded. A class that cannot be changed stays as it is. */
final class Weaver implements ClassFileTransformer {
    private final Map<String, List<JoinpointSet>> setsOf = new HashMap<>(); // by internal name
    private final Map<Key, Boolean> verdicts = new ConcurrentHashMap<>();
    private final ReferenceQueue<Object> unloaded = new ReferenceQueue<>();
    private final Map<JoinpointSet, Integer> numbers = new IdentityHashMap<>(); // in Switches
    private final boolean anyVersion;

    Weaver(List<JoinpointSet> sets, boolean anyVersion) {
        this.anyVersion = anyVersion;
        for (JoinpointSet s : sets) {
            numbers.put(s, Switches.add());
            for (Joinpoint j : s.joinpoints()) {
                List<JoinpointSet> of =
                        setsOf.computeIfAbsent(j.internalName(), n -> new ArrayList<>());
                // Do not use List.contains here: it calls equals of a record class, and the first
                // such call takes tens of milliseconds.
                if (of.isEmpty() || of.get(of.size() - 1) != s) {
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
            int number = numbers.get(set);
            try {
                woven = new ClassWeaver(facts, name, set, number).weave(woven);
            } catch (Throwable t) { // for example, another agent has changed the class
                Switches.off[number] = true;
                Say.once(name.replace('/', '.') + " cannot be woven: " + set.name()
                        + " is off: " + t);
            }
        }
        return woven == bytes ? null : woven;
    }

    /**
     * Returns whether a set fits a loader. This method holds no lock, because it calls the loader,
     * and the loader may wait for another thread that also weaves. At worst, both threads do the
     * same work.
     */
    private boolean fits(JoinpointSet set, ClassLoader loader, ClassFacts facts) {
        for (Object o = unloaded.poll(); o != null; o = unloaded.poll()) {
            verdicts.remove(o);
        }
        Key key = new Key(set, loader, unloaded);
        Boolean known = verdicts.get(key);
        if (known == null) {
            boolean found = findOut(set, loader, facts);
            known = verdicts.putIfAbsent(key, found);
            return known == null ? found : known;
        }
        return known;
    }

    private boolean findOut(JoinpointSet set, ClassLoader loader, ClassFacts facts) {
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
    }

    /** A set and a loader. A key does not keep its loader alive. Keys compare loaders by identity.
     * */
    private static final class Key extends WeakReference<Object> {
        private static final Object BOOTSTRAP = new Object();

        private final JoinpointSet set;
        private final int hash;

        Key(JoinpointSet set, ClassLoader loader, ReferenceQueue<Object> unloaded) {
            super(loader == null ? BOOTSTRAP : loader, unloaded);
            this.set = set;
            hash = 31 * System.identityHashCode(set) + System.identityHashCode(loader);
        }

        @Override
        public boolean equals(Object o) {
            return this == o || o instanceof Key k && k.set == set && get() != null
                    && k.get() == get();
        }

        @Override
        public int hashCode() {
            return hash;
        }
    }

    /** Returns whether a loader finds the classes of the agent that every woven method needs. */
    private static boolean seesUs(ClassLoader loader) {
        try {
            return Class.forName(Say.class.getName(), false, loader) == Say.class
                    && Class.forName(Switches.class.getName(), false, loader) == Switches.class;
        } catch (ClassNotFoundException e) {
            return false;
        }
    }

    /** Returns the methods of a class that a joinpoint names. */
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
