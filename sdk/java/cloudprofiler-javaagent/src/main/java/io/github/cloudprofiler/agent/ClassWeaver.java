package io.github.cloudprofiler.agent;

import java.util.ArrayList;
import java.util.List;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/**
 * Weaves a set's joinpoints into one class. For each joinpoint the class gets a private static
 * method, the helper. The helper evaluates the expressions, calls the advice, and catches whatever
 * is thrown. The method of the joinpoint only calls the helper, so no stack map frame of the
 * program's own code changes. New members are private and static, or private and transient, so the
 * class's serialVersionUID does not change.
 */
final class ClassWeaver {
    private static final String PREFIX = "$cloudprofiler$";

    private record Hook(Joinpoint joinpoint, ClassFacts.Member method, String helper) {
        Type result() {
            return joinpoint.atExit() ? Type.getReturnType(method.descriptor()) : Type.VOID_TYPE;
        }

        /** Returns the types of the object, if there is one, and of the method's arguments. */
        List<Type> passed() {
            List<Type> types = new ArrayList<>(
                    List.of(Type.getArgumentTypes(method.descriptor())));
            if (!method.isStatic()) {
                types.add(0, Type.getObjectType(method.owner()));
            }
            return types;
        }

        /**
         * Returns the types of the helper's parameters. The method's result, if any, comes first.
         */
        List<Type> parameters() {
            List<Type> types = passed();
            if (result().getSize() > 0) {
                types.add(0, result());
            }
            return types;
        }

        String descriptor() {
            return Type.getMethodDescriptor(
                    Type.VOID_TYPE, parameters().toArray(new Type[0]));
        }
    }

    private final ClassFacts facts;
    private final String name;
    private final JoinpointSet set;
    private final int number; // index of the set in Switches.off
    private final List<Hook> hooks = new ArrayList<>();

    ClassWeaver(ClassFacts facts, String name, JoinpointSet set, int number) {
        this.facts = facts;
        this.name = name;
        this.set = set;
        this.number = number;
        for (Joinpoint j : set.joinpoints()) {
            if (j.internalName().equals(name)) {
                // The name of a user's set consists of a file and a line. It may contain characters
                // that a member's name must not contain.
                String of = set.name().replaceAll("[^A-Za-z0-9]", "_");
                String helper = PREFIX + of + "$" + hooks.size();
                ClassFacts.Member m = Weaver.methods(facts, j).get(0);
                String lost = j.lost(facts, m); // in these bytes, not in the file
                if (lost != null) {
                    throw new IllegalStateException(j.method() + " overwrites " + lost);
                }
                hooks.add(new Hook(j, m, helper));
            }
        }
    }

    byte[] weave(byte[] bytes) {
        ClassReader reader = new ClassReader(bytes);
        ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
        reader.accept(new ClassVisitor(Opcodes.ASM9, writer) {
            @Override
            public MethodVisitor visitMethod(
                    int access, String method, String descriptor, String signature,
                    String[] exceptions) {
                MethodVisitor code =
                        super.visitMethod(access, method, descriptor, signature, exceptions);
                for (Hook h : hooks) {
                    if (h.method.name().equals(method)
                            && h.method.descriptor().equals(descriptor)) {
                        code = new Caller(code, h);
                    }
                }
                return code;
            }

            @Override
            public void visitEnd() {
                addMembers(this);
                super.visitEnd();
            }
        }, 0);
        return writer.toByteArray();
    }

    /** Calls a joinpoint's helper where the method begins, or before each of its returns. */
    private final class Caller extends MethodVisitor {
        private final Hook hook;

        Caller(MethodVisitor code, Hook hook) {
            super(Opcodes.ASM9, code);
            this.hook = hook;
        }

        @Override
        public void visitCode() {
            super.visitCode();
            if (!hook.joinpoint.atExit()) {
                call();
            }
        }

        @Override
        public void visitInsn(int opcode) {
            if (hook.joinpoint.atExit() && opcode >= Opcodes.IRETURN && opcode <= Opcodes.RETURN) {
                if (hook.result().getSize() > 0) {
                    super.visitInsn(hook.result().getSize() == 2 ? Opcodes.DUP2 : Opcodes.DUP);
                }
                call();
            }
            super.visitInsn(opcode);
        }

        private void call() { // the method's result is on the stack already, if there is one
            int slot = 0;
            int number = hook.method.isStatic() ? 1 : 0;
            for (Type t : hook.passed()) {
                if (hook.joinpoint.uses(number == 0 ? "this" : "$" + number)) {
                    super.visitVarInsn(t.getOpcode(Opcodes.ILOAD), slot);
                } else { // the method may have overwritten it, even with another type
                    super.visitInsn(zero(t));
                }
                slot += t.getSize();
                number++;
            }
            super.visitMethodInsn(
                    Opcodes.INVOKESTATIC, name, hook.helper, hook.descriptor(), false);
        }
    }

    private static int zero(Type t) {
        return switch (t.getSort()) {
            case Type.LONG -> Opcodes.LCONST_0;
            case Type.FLOAT -> Opcodes.FCONST_0;
            case Type.DOUBLE -> Opcodes.DCONST_0;
            case Type.OBJECT, Type.ARRAY -> Opcodes.ACONST_NULL;
            default -> Opcodes.ICONST_0;
        };
    }

    private void addMembers(ClassVisitor to) {
        List<String> fields = new ArrayList<>();
        for (Hook h : hooks) {
            String state = h.joinpoint.state();
            if (state != null && !fields.contains(state)) {
                fields.add(state);
                to.visitField(
                        Opcodes.ACC_PRIVATE | Opcodes.ACC_TRANSIENT | Opcodes.ACC_SYNTHETIC,
                        PREFIX + state, "Ljava/lang/Object;", null, null).visitEnd();
            }
            new HelperCode(to, h).write();
        }
    }

    /**
     * The code of one helper:
     *
     * <pre>
     *   try { if (!off[set]) { state = this.field, made by init if it is null; call the advice } }
     *   catch (Throwable t) {
     *     try { off[set] = true; Say.failed(…, t) } catch (Throwable u) { the stack is full }
     *   }
     * </pre>
     */
    private final class HelperCode {
        private final Hook hook;
        private final MethodVisitor code;
        private final Object[] parameters; // as frames name them
        private final int stateSlot;

        HelperCode(ClassVisitor to, Hook hook) {
            this.hook = hook;
            code = to.visitMethod(
                    Opcodes.ACC_PRIVATE | Opcodes.ACC_STATIC | Opcodes.ACC_SYNTHETIC,
                    hook.helper, hook.descriptor(), null, null);
            List<Type> types = hook.parameters();
            parameters = types.stream().map(ClassWeaver::inFrames).toArray();
            stateSlot = types.stream().mapToInt(Type::getSize).sum();
        }

        void write() {
            Label begin = new Label();
            Label end = new Label();
            Label caught = new Label();
            Label said = new Label();
            Label caughtAgain = new Label();
            Label out = new Label();
            code.visitCode();
            code.visitTryCatchBlock(begin, end, caught, "java/lang/Throwable");
            code.visitTryCatchBlock(caught, said, caughtAgain, "java/lang/Throwable");
            code.visitLabel(begin);
            loadSwitch();
            code.visitInsn(Opcodes.BALOAD);
            code.visitJumpInsn(Opcodes.IFNE, out);
            try {
                body();
            } catch (Compiler.Unfit e) { // it was checked before
                throw new IllegalStateException(e);
            }
            code.visitLabel(end);
            code.visitJumpInsn(Opcodes.GOTO, out);
            code.visitLabel(caught);
            frameOfHandler();
            code.visitVarInsn(Opcodes.ASTORE, stateSlot);
            loadSwitch();
            code.visitInsn(Opcodes.ICONST_1);
            code.visitInsn(Opcodes.BASTORE);
            code.visitLdcInsn(hook.joinpoint.className() + "." + hook.joinpoint.methodName());
            code.visitLdcInsn(set.name());
            code.visitVarInsn(Opcodes.ALOAD, stateSlot);
            code.visitMethodInsn(Opcodes.INVOKESTATIC, Type.getInternalName(Say.class), "failed",
                    "(Ljava/lang/String;Ljava/lang/String;Ljava/lang/Throwable;)V", false);
            code.visitLabel(said);
            code.visitJumpInsn(Opcodes.GOTO, out);
            code.visitLabel(caughtAgain);
            frameOfHandler();
            code.visitInsn(Opcodes.POP);
            code.visitLabel(out);
            code.visitFrame(Opcodes.F_FULL, parameters.length, parameters, 0, new Object[0]);
            code.visitInsn(Opcodes.RETURN);
            code.visitMaxs(0, 0);
            code.visitEnd();
        }

        private void loadSwitch() {
            code.visitFieldInsn(
                    Opcodes.GETSTATIC, Type.getInternalName(Switches.class), "off", "[Z");
            code.visitLdcInsn(number);
        }

        private void frameOfHandler() {
            code.visitFrame(Opcodes.F_FULL, parameters.length, parameters,
                    1, new Object[] {"java/lang/Throwable"});
        }

        private void body() throws Compiler.Unfit {
            Joinpoint j = hook.joinpoint;
            Compiler compiler = Weaver.compiler(facts, j, hook.method, stateSlot);
            int self = hook.result().getSize();
            if (j.state() != null) {
                code.visitVarInsn(Opcodes.ALOAD, self);
                code.visitFieldInsn(
                        Opcodes.GETFIELD, name, PREFIX + j.state(), "Ljava/lang/Object;");
                code.visitVarInsn(Opcodes.ASTORE, stateSlot);
            }
            if (j.init() != null) {
                Label have = new Label();
                code.visitVarInsn(Opcodes.ALOAD, stateSlot);
                code.visitJumpInsn(Opcodes.IFNONNULL, have);
                compiler.advice(code, j.init());
                code.visitVarInsn(Opcodes.ASTORE, stateSlot);
                code.visitVarInsn(Opcodes.ALOAD, self);
                code.visitVarInsn(Opcodes.ALOAD, stateSlot);
                code.visitFieldInsn(
                        Opcodes.PUTFIELD, name, PREFIX + j.state(), "Ljava/lang/Object;");
                code.visitLabel(have);
                Object[] locals = new Object[parameters.length + 1];
                System.arraycopy(parameters, 0, locals, 0, parameters.length);
                locals[parameters.length] = "java/lang/Object";
                code.visitFrame(Opcodes.F_FULL, locals.length, locals, 0, new Object[0]);
            }
            compiler.advice(code, j.call());
        }
    }

    /** Returns the name of a type in a stack map frame. */
    static Object inFrames(Type t) {
        return switch (t.getSort()) {
            case Type.BOOLEAN, Type.BYTE, Type.CHAR, Type.SHORT, Type.INT -> Opcodes.INTEGER;
            case Type.LONG -> Opcodes.LONG;
            case Type.FLOAT -> Opcodes.FLOAT;
            case Type.DOUBLE -> Opcodes.DOUBLE;
            default -> t.getInternalName();
        };
    }
}
