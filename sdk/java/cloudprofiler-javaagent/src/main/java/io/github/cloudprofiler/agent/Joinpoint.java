package io.github.cloudprofiler.agent;

import java.util.ArrayList;
import java.util.List;
import org.objectweb.asm.Type;

/**
 * A place in a program at which an advice is called.
 *
 * @param className with dots
 * @param method a name, or a name and the types of its parameters: {@code emit(a.b.Record, int)}
 * @param atExit call before the method returns, not when it begins
 * @param state name of the field that keeps the advice's object in the program's object; or null
 * @param init makes that object when it is first needed; or null
 * @param where of the configuration it comes from, for messages
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

    /** Whether the method's parameters are the ones that were written, if any were. */
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
}
