package io.github.cloudprofiler.agent;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.cloudprofiler.agent.advice.TestAdvice;
import java.io.InputStream;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Weaving for several class loaders. */
class WeaverLoadersTest {
    private static final String PROGRAM = WeaverTest.Program.class.getName();

    @BeforeEach
    void know() {
        Advices.add("test", TestAdvice.class);
    }

    /** A loader that finds the agent's classes, or none at all. */
    private static class Loader extends ClassLoader {
        boolean finds = true;

        Loader() {
            super(null);
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            if (!finds) {
                throw new ClassNotFoundException(name);
            }
            return WeaverTest.class.getClassLoader().loadClass(name);
        }

        @Override
        public InputStream getResourceAsStream(String name) {
            return WeaverTest.class.getClassLoader().getResourceAsStream(name);
        }
    }

    private static Weaver weaver() {
        Joinpoint j = new Joinpoint(PROGRAM, "work", false, null, null,
                Expression.readAdvice("test.see(1, 2, $3.id)"), "test");
        return new Weaver(
                List.of(JoinpointSet.ofAnyVersion("test", j)), false);
    }

    private static byte[] weave(Weaver weaver, ClassLoader loader) {
        String path = PROGRAM.replace('.', '/');
        try (InputStream in =
                WeaverTest.class.getClassLoader().getResourceAsStream(path + ".class")) {
            return weaver.transform(loader, path, null, null, in.readAllBytes());
        } catch (java.io.IOException e) {
            throw new IllegalStateException(e);
        }
    }

    /**
     * A loader may wait for a thread that weaves for another loader, and must not wait for ever.
     */
    @Test
    void noLockIsHeldWhileALoaderIsAsked() throws Exception {
        Weaver weaver = weaver();
        CountDownLatch asked = new CountDownLatch(1);
        CountDownLatch otherIsDone = new CountDownLatch(1);
        boolean[] waitedInVain = {false};
        Loader waits = new Loader() {
            @Override
            public InputStream getResourceAsStream(String name) {
                asked.countDown();
                try {
                    waitedInVain[0] |= !otherIsDone.await(10, TimeUnit.SECONDS);
                } catch (InterruptedException e) {
                    throw new IllegalStateException(e);
                }
                return super.getResourceAsStream(name);
            }
        };
        Thread other = new Thread(() -> {
            try {
                asked.await();
            } catch (InterruptedException e) {
                return;
            }
            weave(weaver, new Loader());
            otherIsDone.countDown();
        });
        other.start();
        assertNotNull(weave(weaver, waits));
        other.join();
        assertTrue(asked.getCount() == 0 && !waitedInVain[0]);
    }

    /** An identity hash has 31 bits, so two of about 60,000 loaders have the same hash. */
    @Test
    void loadersWithTheSameHashAreNotTheSame() {
        Map<Integer, Loader> byHash = new HashMap<>();
        Loader a = null;
        Loader b = null;
        while (a == null) {
            b = new Loader();
            a = byHash.put(System.identityHashCode(b), b);
            assertTrue(byHash.size() < 1_000_000, "hashes never collide here");
        }
        Weaver weaver = weaver();
        a.finds = false;
        assertNull(weave(weaver, a));
        assertNotNull(weave(weaver, b));
        assertNull(weave(weaver, a));
    }
}
