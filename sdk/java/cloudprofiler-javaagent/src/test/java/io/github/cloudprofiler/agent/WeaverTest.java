package io.github.cloudprofiler.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.cloudprofiler.agent.advice.TestAdvice;
import java.io.InputStream;
import java.io.ObjectStreamClass;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.Label;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Small classes are woven, loaded and run, so the virtual machine verifies them. */
class WeaverTest {
    /** A tuple. */
    public static class Tuple {
        public final long id;
        private final int secret = 5;
        Integer boxed = 7;

        public Tuple(long id) {
            this.id = id;
        }

        public long getId() {
            return id;
        }

        int secret() {
            return secret;
        }
    }

    /** The program that is woven. */
    public static class Program implements Serializable {
        private static final long serialVersionUID = 1;

        private final transient Tuple last;
        private final long base = 100;
        double sum;

        public Program() {
            last = new Tuple(base);
        }

        public long work(int a, double b, Tuple t, long c) {
            for (int i = 0; i < a; i++) {
                sum += b;
                if (sum > 1e6) {
                    return -1;
                }
            }
            try {
                return t.getId() + c;
            } catch (NullPointerException e) {
                return -2;
            }
        }

        public static void plain(String s, Object o) {
            if (o == null) {
                throw new IllegalArgumentException(s);
            }
        }
    }

    private static final class Loader extends ClassLoader {
        private final Weaver weaver;

        Loader(Weaver weaver) {
            super(WeaverTest.class.getClassLoader());
            this.weaver = weaver;
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!name.equals(Program.class.getName())) {
                return super.loadClass(name, resolve);
            }
            Class<?> loaded = findLoadedClass(name);
            if (loaded != null) {
                return loaded;
            }
            String path = name.replace('.', '/');
            try (InputStream in = getParent().getResourceAsStream(path + ".class")) {
                byte[] bytes = in.readAllBytes();
                byte[] woven = weaver.transform(this, path, null, null, bytes);
                bytes = woven == null ? bytes : woven;
                return defineClass(name, bytes, 0, bytes.length);
            } catch (java.io.IOException e) {
                throw new ClassNotFoundException(name, e);
            }
        }
    }

    private static Joinpoint joinpoint(
            String method, boolean exit, String state, String init, String call) {
        return new Joinpoint(Program.class.getName(), method, exit, state,
                init == null ? null : Expression.readAdvice(init), Expression.readAdvice(call),
                "test");
    }

    private static Class<?> woven(Joinpoint... joinpoints) throws Exception {
        List<JoinpointSet> sets = new ArrayList<>();
        // The set has a name like a user's set: a path and a line.
        sets.add(JoinpointSet.ofAnyVersion("/a;b/[c].yaml line 3", joinpoints));
        return new Loader(new Weaver(sets, false)).loadClass(Program.class.getName());
    }

    private static long work(Class<?> program, Object o, int a, Tuple t) throws Exception {
        return (long) program.getMethod("work", int.class, double.class, Tuple.class, long.class)
                .invoke(o, a, 0.5, t, 1000L);
    }

    @BeforeEach
    void forget() {
        Advices.add("test", TestAdvice.class);
        TestAdvice.SEEN.clear();
        TestAdvice.thrown = null;
    }

    @Test
    void expressionsSeeWhatTheMethodSees() throws Exception {
        Class<?> c = woven(
                joinpoint("work", false, null, null, "test.see($3.getId(), $4, this.base)"),
                joinpoint("work", true, null, null, "test.see(return, $1, $3.id)"));
        Object o = c.getConstructor().newInstance();
        assertEquals(1042, work(c, o, 3, new Tuple(42)));
        assertEquals(List.of("42 1000 100", "1042 3 42"), TestAdvice.SEEN);
        work(c, o, 3_000_000, new Tuple(43));
        assertEquals("-1 3000000 43", TestAdvice.SEEN.get(3));
    }

    @Test
    void theStateBelongsToTheObject() throws Exception {
        Class<?> c = woven(
                joinpoint("work", false, "s", "test.make($1)", "test.keep(state)"),
                joinpoint("work", true, "s", null, "test.keep(state)"));
        Object a = c.getConstructor().newInstance();
        Object b = c.getConstructor().newInstance();
        work(c, a, 1, new Tuple(1));
        work(c, b, 2, new Tuple(1));
        work(c, a, 3, new Tuple(1));
        assertEquals(List.of("state 1", "state 1", "state 2", "state 2", "state 1", "state 1"),
                TestAdvice.SEEN);
    }

    @Test
    void severalSetsAreWovenIntoOneClass() throws Exception {
        List<JoinpointSet> sets = new ArrayList<>();
        for (int i = 1; i <= 2; i++) {
            Joinpoint j = joinpoint("work", false, null, null, "test.see(" + i + ", 0, 0)");
            sets.add(JoinpointSet.ofAnyVersion("c.yaml line " + i, j));
        }
        Class<?> c = new Loader(new Weaver(sets, false)).loadClass(Program.class.getName());
        work(c, c.getConstructor().newInstance(), 1, new Tuple(1));
        assertEquals(2, TestAdvice.SEEN.size());
    }

    @Test
    void aConstructorIsWovenAtItsExit() throws Exception {
        Class<?> c = woven(joinpoint("<init>", true, null, null, "test.see(1, 2, this.last.id)"));
        c.getConstructor().newInstance();
        assertEquals(List.of("1 2 100"), TestAdvice.SEEN);
    }

    @Test
    void anAdviceThatThrowsIsOffAndTheProgramGoesOn() throws Exception {
        Class<?> c = woven(
                joinpoint("work", false, null, null, "test.see(1, 2, 3)"),
                joinpoint("work", true, null, null, "test.see(4, 5, $3.id)"));
        Object o = c.getConstructor().newInstance();
        TestAdvice.thrown = new StackOverflowError("on purpose");
        assertEquals(1042, work(c, o, 3, new Tuple(42)));
        TestAdvice.thrown = null;
        assertEquals(1042, work(c, o, 3, new Tuple(42)));
        assertEquals(List.of(), TestAdvice.SEEN);
    }

    @Test
    void anExpressionThatThrowsIsOffAndTheProgramGoesOn() throws Exception {
        Class<?> c = woven(joinpoint("work", false, null, null, "test.see(1, 2, $3.id)"));
        Object o = c.getConstructor().newInstance();
        assertEquals(-2, work(c, o, 3, null));
        assertEquals(1042, work(c, o, 3, new Tuple(42)));
        assertEquals(List.of(), TestAdvice.SEEN);
    }

    /** If one joinpoint failed, the others would count elements wrongly, so they stop, too. */
    @Test
    void aSetGoesOffAsAWhole() throws Exception {
        Class<?> c = woven(
                joinpoint("work", false, null, null, "test.see(1, 2, $3.id)"),
                joinpoint("work", true, null, null, "test.see(4, 5, 6)"));
        Object o = c.getConstructor().newInstance();
        work(c, o, 3, new Tuple(42));
        assertEquals(List.of("1 2 42", "4 5 6"), TestAdvice.SEEN);
        work(c, o, 3, null);
        work(c, o, 3, new Tuple(42));
        assertEquals(2, TestAdvice.SEEN.size());
        woven(joinpoint("plain", false, null, null, "test.see(1, 2, 3)"))
                .getMethod("plain", String.class, Object.class).invoke(null, "", "");
        assertEquals(3, TestAdvice.SEEN.size());
    }

    /** If the stack is full, even the calls in the exception handler throw. */
    @Test
    void theHandlerIsGuardedToo() throws Exception {
        Joinpoint j = joinpoint("work", false, null, null, "test.see(1, 2, 3)");
        JoinpointSet set = JoinpointSet.ofAnyVersion("test", j);
        ClassLoader loader = WeaverTest.class.getClassLoader();
        byte[] woven;
        try (InputStream in = loader.getResourceAsStream(j.internalName() + ".class")) {
            woven = new Weaver(List.of(set), false).transform(
                    loader, j.internalName(), null, null, in.readAllBytes());
        }
        List<Label> order = new ArrayList<>();
        List<Label[]> blocks = new ArrayList<>();
        int[] calls = {0};
        new ClassReader(woven).accept(new ClassVisitor(Opcodes.ASM9) {
            @Override
            public MethodVisitor visitMethod(
                    int access, String name, String type, String signature, String[] thrown) {
                return !name.startsWith("$cloudprofiler$") ? null
                        : new MethodVisitor(Opcodes.ASM9) {
                    @Override
                    public void visitTryCatchBlock(Label from, Label to, Label at, String of) {
                        blocks.add(new Label[] {from, to});
                    }

                    @Override
                    public void visitLabel(Label label) {
                        order.add(label);
                    }

                    @Override
                    public void visitMethodInsn(
                            int opcode, String owner, String called, String type, boolean itf) {
                        calls[0]++;
                        assertTrue(blocks.stream().anyMatch(
                                b -> order.contains(b[0]) && !order.contains(b[1])), called);
                    }
                };
            }
        }, ClassReader.SKIP_DEBUG);
        assertEquals(2, calls[0]);
    }

    @Test
    void whatTheProgramThrowsStaysTheProgramsOwn() throws Exception {
        Class<?> c = woven(joinpoint("plain", true, null, null, "test.see(1, 2, 3)"));
        var plain = c.getMethod("plain", String.class, Object.class);
        Throwable t = org.junit.jupiter.api.Assertions.assertThrows(
                java.lang.reflect.InvocationTargetException.class,
                () -> plain.invoke(null, "mine", null)).getCause();
        assertEquals("mine", t.getMessage());
        plain.invoke(null, "mine", "there");
        assertEquals(List.of("1 2 3"), TestAdvice.SEEN);
    }

    @Test
    void theSerialVersionStays() throws Exception {
        Class<?> c = woven(joinpoint("work", false, "s", "test.make($1)", "test.keep(state)"));
        long fields = List.of(c.getDeclaredFields()).size();
        assertTrue(fields > Program.class.getDeclaredFields().length);
        assertEquals(ObjectStreamClass.lookup(Program.class).getFields().length,
                ObjectStreamClass.lookup(c).getFields().length);
    }

    @ParameterizedTest
    @CsvSource(delimiter = '!', textBlock = """
            work ! test.see(1, 2, $3.secret) ! Tuple.secret is not accessible
            work ! test.see(1, 2, $3.nothing) ! Tuple has no field nothing
            work ! test.see(1, 2, $3.nothing()) ! Tuple has no method nothing() with a result
            work ! test.see(1, 2, $5) ! the method has 4 arguments, no $5
            work ! test.see(1, 2, $2) ! it needs a long, and the expression is a double
            work ! test.see(1, 2, return) ! there is no "return"
            work ! test.see(1, 2) ! no advice test.see with 2 arguments
            work ! none.see(1, 2, 3) ! no advice none.see with 3 arguments
            work ! test.see(1, 2, ($3 as a.B).id) ! there is no class a.B
            plain ! test.see(1, 2, this.base) ! the method is static and has no "this"
            work(int) ! test.see(1, 2, 3) ! has 0 methods work(int)
            rest ! test.see(1, 2, 3) ! has 0 methods rest
            <init> ! test.see(1, 2, 3) ! a constructor needs "at: exit"
            """)
    void whatDoesNotFitIsNamed(String method, String call, String problem) throws Exception {
        Joinpoint j = joinpoint(method, false, null, null, call);
        JoinpointSet set = JoinpointSet.ofAnyVersion("test", j);
        ClassLoader loader = WeaverTest.class.getClassLoader();
        ClassFacts facts = new ClassFacts(loader::getResourceAsStream);
        List<String> problems = new Fitness(facts, loader, false).problems(set);
        assertTrue(problems.get(0).contains(problem), problems.toString());
        String path = j.internalName();
        try (InputStream in = loader.getResourceAsStream(path + ".class")) {
            assertNull(new Weaver(List.of(set), false).transform(
                    loader, path, null, null, in.readAllBytes()));
        }
    }
}
