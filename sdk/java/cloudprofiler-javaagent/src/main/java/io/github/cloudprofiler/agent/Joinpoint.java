package io.github.cloudprofiler.agent;

import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
import org.objectweb.asm.Type;

/**
 * A place in a program at which an advice is called.
 *
 * @param className the class, with dots
 * @param method a name, or a name and the types of its parameters: {@code emit(a.b.Record, int)}
 * @param atExit whether the call comes before the method returns, not when it begins
 * @param state the name of the field that keeps the advice's object in the program's object; or
 *     null
 * @param init makes that object when it is first needed; or null
 * @param call the advice, with what it is given
 * @param where the place of the joinpoint in the configuration, for messages
 */
record Joinpoint(
        String className, String method, boolean atExit, String state, Expression.Advice init,
        Expression.Advice call, String where) {

    String internalName() {
        return className.replace('.', '/');
    }

    String methodName() {
        int bracket = method.indexOf('(');
        return (bracket < 0 ? method : method.substring(0, bracket)).strip();
    }

    /** Returns whether a method has the parameters that the joinpoint names, if it names any. */
    boolean hasParametersOf(String descriptor) {
        int bracket = method.indexOf('(');
        if (bracket < 0) {
            return true;
        }
        List<String> types = new ArrayList<>();
        for (Type t : Type.getArgumentTypes(descriptor)) {
            types.add(t.getClassName());
        }
        String want = method.substring(bracket + 1, method.lastIndexOf(')'));
        return String.join(",", types).equals(want.replace(" ", ""));
    }

    /** Returns whether the joinpoint passes the root (this, $1 and so on) to its advice. */
    boolean uses(String root) {
        if (state != null && root.equals("this")) {
            return true;
        }
        return Stream.of(call, init).filter(Objects::nonNull)
                .flatMap(a -> a.args().stream()).anyMatch(e -> root.equals(e.root()));
    }

    /**
     * Returns a root ($1, $2 and so on) that the advice needs at the end of the method, but that
     * the method has overwritten. Returns null if there is no such root.
     */
    String lost(ClassFacts facts, ClassFacts.Member m) {
        if (!atExit) {
            return null;
        }
        LostSlots lost = facts.find(internalName()).lost().get(m.name() + m.descriptor());
        if (!m.isStatic() && uses("this") && lost.contains(0, 1)) {
            return "this";
        }
        int slot = m.isStatic() ? 0 : 1;
        int number = 1;
        for (Type t : Type.getArgumentTypes(m.descriptor())) {
            if (uses("$" + number) && lost.contains(slot, t.getSize())) {
                return "$" + number;
            }
            slot += t.getSize();
            number++;
        }
        return null;
    }
}
