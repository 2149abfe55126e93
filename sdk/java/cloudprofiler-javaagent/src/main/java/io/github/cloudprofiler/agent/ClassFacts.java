package io.github.cloudprofiler.agent;

import java.io.IOException;
import java.io.InputStream;
import java.util.HashMap;
import java.util.Map;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/**
 * What class files say about classes. The files are read, and no class is loaded. So a joinpoint
 * can be checked before any class is changed.
 */
final class ClassFacts {
    /** A field or a method. The key of a field in Facts is its name. The key of a method also has
     * the descriptor. */
    record Member(String owner, String name, String descriptor, int access) {
        boolean isStatic() {
            return (access & Opcodes.ACC_STATIC) != 0;
        }
    }

    /** A class, with what it declares itself. Names have slashes. */
    record Facts(
            String name, int access, int version, String parent, String[] interfaces,
            Map<String, Member> fields, Map<String, Member> methods,
            Map<String, LostSlots> lost) {
        boolean isInterface() {
            return (access & Opcodes.ACC_INTERFACE) != 0;
        }
    }

    /** Finds the bytes of a class by its name with slashes and ".class". */
    interface Source {
        InputStream open(String path) throws IOException;
    }

    private final Source source;
    private final Map<String, Facts> known = new HashMap<>();

    ClassFacts(Source source) {
        this.source = source;
    }

    /** Reads a class file. */
    static Facts of(byte[] bytes) {
        Map<String, Member> fields = new HashMap<>();
        Map<String, Member> methods = new HashMap<>();
        Map<String, LostSlots> lost = new HashMap<>();
        Facts[] result = new Facts[1];
        new ClassReader(bytes).accept(new ClassVisitor(Opcodes.ASM9) {
            private String name;

            @Override
            public void visit(
                    int version, int access, String name, String signature, String parent,
                    String[] interfaces) {
                this.name = name;
                result[0] = new Facts(name, access, version, parent, interfaces, fields, methods,
                        lost);
            }

            @Override
            public FieldVisitor visitField(
                    int access, String field, String descriptor, String signature, Object value) {
                fields.put(field, new Member(name, field, descriptor, access));
                return null;
            }

            @Override
            public MethodVisitor visitMethod(
                    int access, String method, String descriptor, String signature,
                    String[] exceptions) {
                methods.put(method + descriptor, new Member(name, method, descriptor, access));
                LostSlots slots = new LostSlots(name, access, descriptor);
                lost.put(method + descriptor, slots);
                return slots;
            }
        }, ClassReader.SKIP_DEBUG | ClassReader.EXPAND_FRAMES);
        return result[0];
    }

    void add(Facts facts) {
        known.put(facts.name, facts);
    }

    /** Returns a class, or null if its file cannot be found. */
    Facts find(String internalName) {
        if (!known.containsKey(internalName)) {
            Facts facts = null;
            try (InputStream in = source.open(internalName + ".class")) {
                facts = in == null ? null : of(in.readAllBytes());
            } catch (IOException | IllegalArgumentException e) {
                facts = null; // also if ASM does not know this version of class files
            }
            known.put(internalName, facts);
        }
        return known.get(internalName);
    }

    /** Finds a field in a class or in what it inherits from; null if there is none. */
    Member field(String in, String name) {
        return inherited(in, facts -> facts.fields.get(name));
    }

    /** Finds a method without parameters; null if there is none. */
    Member getter(String in, String name) {
        return inherited(in, facts -> {
            for (Member m : facts.methods.values()) {
                if (m.name.equals(name) && m.descriptor.startsWith("()")
                        && (m.access & Opcodes.ACC_BRIDGE) == 0) {
                    return m;
                }
            }
            return null;
        });
    }

    /** Returns whether a class is the other class, or inherits from it. */
    boolean isA(String name, String other) {
        return name.equals(other)
                || inherited(name, f -> f.name.equals(other)
                        ? new Member(other, "", "", 0) : null) != null;
    }

    private interface Look {
        Member in(Facts facts);
    }

    private Member inherited(String in, Look look) {
        Facts facts = find(in);
        if (facts == null) {
            return null;
        }
        Member m = look.in(facts);
        if (m == null && facts.parent != null) {
            m = inherited(facts.parent, look);
        }
        for (int i = 0; m == null && i < facts.interfaces.length; i++) {
            m = inherited(facts.interfaces[i], look);
        }
        return m;
    }
}
