package io.github.cloudprofiler;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.github.cloudprofiler.programs.Hello;
import java.io.File;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class LibraryTest {
    private static final String DENY = "--illegal-native-access=deny";

    /** Shell commands after which no directory that the library tries is executable. */
    private static final String NOEXEC = "unset XDG_RUNTIME_DIR XDG_CACHE_HOME; "
            + "for d in /tmp /var/tmp /dev/shm /run; do "
            + "mount -t tmpfs -o noexec none $d || exit; done; exec \"$0\" \"$@\"";

    /** Starts a JVM that logs, and returns what it says on both streams. */
    private static String hello(Rings rings, String classPath, String... flags) throws Exception {
        return hello(List.of(), rings.dir, classPath, flags);
    }

    private static String hello(List<String> starter, Path dir, String classPath,
            String... flags) throws Exception {
        List<String> command = new ArrayList<>(starter);
        command.addAll(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(), "-Xshare:auto",
                "-cp", classPath));
        command.addAll(List.of(flags));
        if (Runtime.version().feature() > 17 && !command.contains(DENY)) {
            command.add("--enable-native-access=ALL-UNNAMED"); // without it, the JVM warns
        }
        command.add(Hello.class.getName());
        Path out = Files.createTempFile("cloudprofiler-hello", "");
        ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true)
                .redirectOutput(out.toFile());
        builder.environment().put("CLOUDPROFILER_DIR", dir.toString());
        Process p = builder.start();
        assertTrue(p.waitFor(60, TimeUnit.SECONDS));
        String said = Files.readString(out, StandardCharsets.UTF_8).trim();
        Files.delete(out);
        assertEquals(0, p.exitValue(), said);
        return said;
    }

    private static String classPath() {
        return System.getProperty("surefire.test.class.path",
                System.getProperty("java.class.path"));
    }

    /** Checks that a program says one line about us, with this text, and that it runs on. */
    private static void complains(String text, String said) {
        String[] lines = said.split("\n");
        assertEquals(2, lines.length, said);
        assertTrue(lines[0].startsWith("cloudprofiler: load the native library"), said);
        assertTrue(lines[0].contains(text), said);
        assertEquals("hello, 0 events", lines[1]);
    }

    @Test
    void theLibraryOfThisPlatformIsOnTheClassPath() throws Exception {
        try (Rings rings = new Rings()) {
            assertEquals("hello, 10 events", hello(rings, classPath()));
            assertEquals(2, rings.files().size());
        }
    }

    @Test
    void aMissingLibraryIsNamed() throws Exception {
        StringBuilder without = new StringBuilder();
        for (String element : classPath().split(File.pathSeparator)) {
            if (!element.contains("cloudprofiler-native")) {
                without.append(element).append(File.pathSeparator);
            }
        }
        try (Rings rings = new Rings()) {
            complains("add the artifact cloudprofiler-native with the classifier "
                    + Library.platform(), hello(rings, without.toString()));
            complains("/no/such/file.so", hello(rings, classPath(),
                    "-Dcloudprofiler.native=/no/such/file.so"));
            complains("x86-64 or arm64, and this is Linux on s390x", hello(rings, classPath(),
                    "-Dos.arch=s390x"));
        }
    }

    @Test
    void theLibraryOfAnotherPlatformIsRefused() throws Exception {
        String other = Library.platform().equals("linux-aarch_64") ? "linux-x86_64"
                : "linux-aarch_64";
        URL library = Library.class.getResource("native/" + other + "/" + Library.FILE);
        assumeTrue(library != null, "the compiler for " + other + " is not here");
        try (Rings rings = new Rings()) {
            complains(Path.of(library.toURI()) + ": ", hello(rings, classPath(),
                    "-Dcloudprofiler.native=" + Path.of(library.toURI())));
        }
    }

    /** Needs root to mount. The rings are in a directory that the child sees, too. */
    @Test
    void directoriesThatAreNotExecutableAreAvoided() throws Exception {
        List<String> starter = List.of("unshare", "--mount", "sh", "-c", NOEXEC);
        boolean root = "root".equals(System.getProperty("user.name"));
        Path here = Path.of("").toAbsolutePath();
        String java = System.getProperty("java.home");
        assumeTrue(root && !here.startsWith("/tmp") && !java.startsWith("/tmp"),
                "this test cannot mount");
        String home = "-Duser.home=/run"; // the user's own may contain this tree and the JVM
        try (Rings rings = new Rings(here.resolve("target"))) {
            if (Runtime.version().feature() >= 21) {
                assertEquals("hello, 10 events", hello(starter, rings.dir, classPath(), home));
            } else {
                complains("memory: needs Java 21", hello(starter, rings.dir, classPath(), home));
            }
        }
    }

    @Test
    void aBadDirectoryIsNamedOnce() throws Exception {
        Path file = Files.createTempFile("cloudprofiler-file", "");
        String said = hello(List.of(), file, classPath());
        Files.delete(file);
        String[] lines = said.split("\n"); // one complaint, although two channels fail
        assertEquals(2, lines.length, said);
        assertTrue(lines[0].startsWith("cloudprofiler: open channel: "), said);
        assertTrue(lines[0].contains(file.toString()), said);
        assertEquals("hello, 0 events", lines[1]);
    }

    @Test
    void aFileThatIsNoLibraryIsRefused() throws Exception {
        Path text = Files.createTempFile("cloudprofiler-library", ".so");
        Files.writeString(text, "not a library".repeat(100));
        try (Rings rings = new Rings()) {
            complains("it is not a library", hello(rings, classPath(),
                    "-Dcloudprofiler.native=" + text));
        }
        Files.delete(text);
    }

    @Test
    void aJvmThatForbidsNativeCodeRunsOn() throws Exception {
        if (Runtime.version().feature() < 24) {
            return; // no such flag
        }
        try (Rings rings = new Rings()) {
            complains("IllegalCallerException", hello(rings, classPath(), DENY));
        }
    }

    /** When a class loader with this library goes away, its channels are closed. */
    @Test
    void unloadedClassesCloseTheirChannels() throws Exception {
        List<URL> urls = new ArrayList<>();
        for (String element : classPath().split(File.pathSeparator)) {
            urls.add(Path.of(element).toUri().toURL());
        }
        try (Rings rings = new Rings()) {
            WeakReference<ClassLoader> gone = openIn(urls.toArray(new URL[0]), rings);
            Path ring = rings.files().get(0);
            assertEquals(1, Rings.events(ring));
            long deadline = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
            while (!Rings.closed(ring) && System.nanoTime() < deadline) {
                System.gc();
                Thread.sleep(10);
            }
            assertTrue(Rings.closed(ring), "loader is " + gone.get());
        }
    }

    private static WeakReference<ClassLoader> openIn(URL[] urls, Rings rings) throws Exception {
        ClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader());
        Class<?> channel = loader.loadClass(Channel.class.getName());
        assertNotEquals(Channel.class, channel);
        Class<?> options = loader.loadClass(Options.class.getName());
        Object o = options.getMethod("dir", Path.class).invoke(
                options.getConstructor().newInstance(), rings.dir);
        // Only the loader's own classes can reach this channel.
        Object c = channel.getMethod("open", String.class, options).invoke(null, "a/x", o);
        channel.getMethod("log", long.class).invoke(c, 1L);
        Class<?> keeper = loader.loadClass(Hello.class.getName());
        keeper.getField("kept").set(null, c);
        return new WeakReference<>(loader);
    }
}
