package io.github.cloudprofiler.agent;

import java.lang.reflect.Method;
import java.util.List;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.Type;

/**
 * Compiles expressions into the code of a static method. The parameters of that method are the
 * result of the joinpoint's method, if there is one, then the object, then the arguments of the
 * joinpoint's method. With a null visitor it only checks the expressions. If one does not fit the
 * program, it throws {@link Unfit}, which names what does not fit.
 */
final class Compiler {
    /** Says that a joinpoint refers to something that the program does not have. */
    static final class Unfit extends Exception {
        private static final long serialVersionUID = 1;

        Unfit(String what) {
            super(what);
        }
    }

    private static final Type OBJECT = Type.getType(Object.class);

    private final ClassFacts facts;
    private final String owner; // the class of the joinpoint, with slashes
    private final boolean isStatic;
    private final Type[] arguments; // of the joinpoint's method
    private final Type result; // of the joinpoint's method; void if there is none
    private final int stateSlot;

    Compiler(
            ClassFacts facts, String owner, boolean isStatic, Type[] arguments, Type result,
            int stateSlot) {
        this.facts = facts;
        this.owner = owner;
        this.isStatic = isStatic;
        this.arguments = arguments;
        this.result = result;
        this.stateSlot = stateSlot;
    }

    /** Compiles the call of an advice. Returns the type of its result. */
    Type advice(MethodVisitor code, Expression.Advice call) throws Unfit {
        Class<?> type = Advices.named(call.advice());
        Method method = null;
        for (Method m : type == null ? new Method[0] : type.getMethods()) {
            if (m.getName().equals(call.method())
                    && m.getParameterCount() == call.args().size()) {
                method = m;
            }
        }
        if (method == null) {
            throw new Unfit("no advice " + call.advice() + "." + call.method() + " with "
                    + call.args().size() + " arguments");
        }
        List<Expression> args = call.args();
        for (int i = 0; i < args.size(); i++) {
            Type given = expression(code, args.get(i));
            convert(code, given, Type.getType(method.getParameterTypes()[i]), args.get(i));
        }
        if (code != null) {
            code.visitMethodInsn(Opcodes.INVOKESTATIC, Type.getInternalName(type),
                    method.getName(), Type.getMethodDescriptor(method), false);
        }
        return Type.getReturnType(method);
    }

    private Type expression(MethodVisitor code, Expression e) throws Unfit {
        if (e instanceof Expression.Root root) {
            return root(code, root.name());
        }
        if (e instanceof Expression.Number number) {
            if (code != null) {
                code.visitLdcInsn(number.value());
            }
            return Type.INT_TYPE;
        }
        if (e instanceof Expression.Cast cast) {
            Type from = expression(code, cast.of());
            String to = cast.type().replace('.', '/');
            if (facts.find(to) == null) {
                throw new Unfit("there is no class " + cast.type());
            }
            if (from.getSort() != Type.OBJECT) {
                throw new Unfit("a " + from.getClassName() + " is not a " + cast.type());
            }
            if (code != null) {
                code.visitTypeInsn(Opcodes.CHECKCAST, to);
            }
            return Type.getObjectType(to);
        }
        if (e instanceof Expression.Field field) {
            return field(code, field);
        }
        return call(code, (Expression.Call) e);
    }

    private Type root(MethodVisitor code, String name) throws Unfit {
        if (name.equals("state")) {
            load(code, OBJECT, stateSlot);
            return OBJECT;
        }
        if (name.equals("this")) {
            if (isStatic) {
                throw new Unfit("the method is static and has no \"this\"");
            }
            load(code, OBJECT, result.getSize());
            return Type.getObjectType(owner);
        }
        if (name.equals("return")) {
            if (result.getSort() == Type.VOID) {
                throw new Unfit("there is no \"return\": the method is void, or \"at: exit\" is "
                        + "missing");
            }
            load(code, result, 0);
            return result;
        }
        int number = Integer.parseInt(name.substring(1)) - 1;
        if (number >= arguments.length) {
            throw new Unfit("the method has " + arguments.length + " arguments, no " + name);
        }
        int slot = result.getSize() + (isStatic ? 0 : 1);
        for (int i = 0; i < number; i++) {
            slot += arguments[i].getSize();
        }
        load(code, arguments[number], slot);
        return arguments[number];
    }

    private static void load(MethodVisitor code, Type type, int slot) {
        if (code != null) {
            code.visitVarInsn(type.getOpcode(Opcodes.ILOAD), slot);
        }
    }

    private String ofObject(Type type, String member) throws Unfit {
        if (type.getSort() != Type.OBJECT) {
            throw new Unfit("a " + type.getClassName() + " has no " + member);
        }
        if (facts.find(type.getInternalName()) == null) {
            throw new Unfit("there is no class " + type.getClassName());
        }
        return type.getInternalName();
    }

    private Type field(MethodVisitor code, Expression.Field e) throws Unfit {
        String of = ofObject(expression(code, e.of()), e.name());
        ClassFacts.Member m = facts.field(of, e.name());
        if (m == null || m.isStatic()) {
            throw new Unfit(of.replace('/', '.') + " has no field " + e.name());
        }
        reachable(m, of);
        if (code != null) {
            code.visitFieldInsn(Opcodes.GETFIELD, of, m.name(), m.descriptor());
        }
        return Type.getType(m.descriptor());
    }

    private Type call(MethodVisitor code, Expression.Call e) throws Unfit {
        String of = ofObject(expression(code, e.of()), e.method() + "()");
        ClassFacts.Member m = facts.getter(of, e.method());
        Type result = m == null ? Type.VOID_TYPE : Type.getReturnType(m.descriptor());
        if (result.getSort() == Type.VOID || m.isStatic()) {
            throw new Unfit(of.replace('/', '.') + " has no method " + e.method()
                    + "() with a result");
        }
        reachable(m, of);
        if (code != null) {
            boolean isInterface = facts.find(of).isInterface();
            code.visitMethodInsn(
                    isInterface ? Opcodes.INVOKEINTERFACE : Opcodes.INVOKEVIRTUAL,
                    of, m.name(), m.descriptor(), isInterface);
        }
        return result;
    }

    /** Checks that the woven class may access a member, by the rules of the virtual machine. */
    private void reachable(ClassFacts.Member m, String of) throws Unfit {
        boolean same = m.owner().equals(owner);
        boolean samePackage = packageOf(m.owner()).equals(packageOf(owner));
        boolean ok = (m.access() & Opcodes.ACC_PUBLIC) != 0 || same;
        if ((m.access() & Opcodes.ACC_PRIVATE) == 0) {
            ok |= samePackage;
        }
        if ((m.access() & Opcodes.ACC_PROTECTED) != 0) {
            ok |= facts.isA(owner, m.owner()) && facts.isA(of, owner);
        }
        ClassFacts.Facts type = facts.find(of);
        ok &= of.equals(owner) || (type.access() & Opcodes.ACC_PUBLIC) != 0
                || packageOf(of).equals(packageOf(owner));
        if (!ok) {
            throw new Unfit(m.owner().replace('/', '.') + "." + m.name() + " is not accessible");
        }
    }

    private static String packageOf(String internalName) {
        return internalName.substring(0, Math.max(0, internalName.lastIndexOf('/')));
    }

    private void convert(MethodVisitor code, Type from, Type to, Expression e) throws Unfit {
        boolean reference = from.getSort() == Type.OBJECT || from.getSort() == Type.ARRAY;
        if (to.equals(from) || reference && to.equals(OBJECT)) {
            return;
        }
        boolean small = from.getSort() == Type.INT || from.getSort() == Type.SHORT
                || from.getSort() == Type.CHAR || from.getSort() == Type.BYTE;
        if (to.getSort() == Type.INT && small) {
            return;
        }
        if (to.getSort() == Type.LONG && small) {
            if (code != null) {
                code.visitInsn(Opcodes.I2L);
            }
            return;
        }
        if (to.getSort() == Type.LONG && from.getSort() == Type.OBJECT
                && facts.isA(from.getInternalName(), "java/lang/Number")) {
            if (code != null) {
                code.visitTypeInsn(Opcodes.CHECKCAST, "java/lang/Number");
                code.visitMethodInsn(
                        Opcodes.INVOKEVIRTUAL, "java/lang/Number", "longValue", "()J", false);
            }
            return;
        }
        throw new Unfit("it needs a " + to.getClassName() + ", and the expression is a "
                + from.getClassName() + (e instanceof Expression.Root r ? ": " + r.name() : ""));
    }
}
