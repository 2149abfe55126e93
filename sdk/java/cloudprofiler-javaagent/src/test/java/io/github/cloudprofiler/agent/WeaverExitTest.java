package io.github.cloudprofiler.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;

import io.github.cloudprofiler.agent.advice.TestAdvice;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.objectweb.asm.ClassWriter;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** A method may have overwritten its parameters when it returns. */
class WeaverExitTest {
    private static final class Loader extends ClassLoader {
        Loader() {
            super(WeaverExitTest.class.getClassLoader());
        }

        Class<?> define(byte[] bytes) {
            return defineClass("made.Program", bytes, 0, bytes.length);
        }
    }

    @BeforeEach
    void forget() {
        Advices.add("test", TestAdvice.class);
        TestAdvice.SEEN.clear();
        TestAdvice.thrown = null;
    }

    /** Makes {@code static long work(Object, int, long)}, which loses a parameter in some way. */
    private static byte[] program(String way) {
        ClassWriter w = new ClassWriter(ClassWriter.COMPUTE_MAXS);
        w.visit(Opcodes.V17, Opcodes.ACC_PUBLIC, "made/Program", null, "java/lang/Object", null);
        MethodVisitor m = w.visitMethod(Opcodes.ACC_PUBLIC | Opcodes.ACC_STATIC, "work",
                "(Ljava/lang/Integer;IJ)J", null, null);
        m.visitCode();
        switch (way) {
            case "type" -> { // a register allocator uses the slot again
                m.visitInsn(Opcodes.ICONST_5);
                m.visitVarInsn(Opcodes.ISTORE, 0);
            }
            case "wide" -> { // the second half of another variable
                m.visitInsn(Opcodes.LCONST_1);
                m.visitVarInsn(Opcodes.LSTORE, 0);
            }
            case "increment" -> m.visitIincInsn(1, 1);
            default -> { // a stack map frame drops the variable
                Label next = new Label();
                m.visitVarInsn(Opcodes.ILOAD, 1);
                m.visitJumpInsn(Opcodes.IFEQ, next);
                m.visitLabel(next);
                m.visitFrame(Opcodes.F_FULL, 3,
                        new Object[] {Opcodes.TOP, Opcodes.INTEGER, Opcodes.LONG}, 0, null);
            }
        }
        m.visitVarInsn(Opcodes.LLOAD, 2);
        m.visitInsn(Opcodes.LRETURN);
        m.visitMaxs(0, 0);
        m.visitEnd();
        w.visitEnd();
        return w.toByteArray();
    }

    private static byte[] woven(String way, String call) {
        Joinpoint j = new Joinpoint("made.Program", "work", true, null, null,
                Expression.readAdvice(call), "test");
        JoinpointSet set = JoinpointSet.ofAnyVersion("test", j);
        return new Weaver(List.of(set), false).transform(
                new Loader(), "made/Program", null, null, program(way));
    }

    @ParameterizedTest
    @ValueSource(strings = {"type", "wide", "increment", "frame"})
    void whatIsNotUsedMayBeLost(String way) throws Exception {
        byte[] bytes = woven(way, "test.see(return, $3, 3)");
        assertNotNull(bytes);
        Object result = new Loader().define(bytes)
                .getMethod("work", Integer.class, int.class, long.class).invoke(null, 1, 2, 7L);
        assertEquals(7L, result);
        assertEquals(List.of("7 7 3"), TestAdvice.SEEN);
    }

    @ParameterizedTest
    @ValueSource(strings = {"type", "wide", "frame"})
    void aLostObjectIsRefused(String way) {
        assertNull(woven(way, "test.see($1, 2, 3)"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"wide", "increment"})
    void aLostNumberIsRefused(String way) {
        assertNull(woven(way, "test.see($2, 2, 3)"));
        assertNotNull(woven("type", "test.see($2, 2, 3)"));
    }

    @Test
    void theLineNamesWhatIsLost() {
        Joinpoint j = new Joinpoint("made.Program", "work", true, null, null,
                Expression.readAdvice("test.see(1, 2, $1)"), "test");
        ClassFacts facts = new ClassFacts(path -> getClass().getResourceAsStream("/" + path));
        facts.add(ClassFacts.of(program("type")));
        List<String> problems = new Fitness(facts, getClass().getClassLoader(), false)
                .problems(JoinpointSet.ofAnyVersion("test", j));
        assertEquals(List.of("made.Program.work overwrites $1, which is not there \"at: exit\" "
                + "(test)"), problems);
    }
}
