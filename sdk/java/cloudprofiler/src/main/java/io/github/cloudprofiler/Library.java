package io.github.cloudprofiler;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/**
 * Finds and loads the native library, once for each class loader of this class. The library is the
 * file that the system property cloudprofiler.native names, or else a resource of the artifact
 * cloudprofiler-native.
 *
 * <p>The JVM loads libraries only from files, so a resource is first copied to a new directory that
 * only this user can access. The copy is removed as soon as it is loaded, because Linux keeps the
 * content of a loaded file. Some directories are mounted noexec, so several directories are tried,
 * and finally a file in memory.
 */
final class Library {
    static final String PROPERTY = "cloudprofiler.native";
    static final String FILE = "libcloudprofiler-java.so";

    private static final String REFUSAL = load();

    private Library() {}

    /** Returns why the library is not there, or null if it is. */
    static String refusal() {
        return REFUSAL;
    }

    private static String load() {
        String refusal;
        try {
            refusal = find();
            if (refusal == null && Native.hurried().length > 0) {
                return null;
            }
        } catch (Throwable e) { // an error here would make each later open of a channel throw
            refusal = "load the native library: " + first(e);
        }
        Complaints.once(refusal);
        return refusal;
    }

    private static String find() throws IOException {
        String file = System.getProperty(PROPERTY);
        if (file != null && !file.isEmpty()) {
            try {
                Path path = Path.of(file).toAbsolutePath();
                checkFormat(path);
                System.load(path.toString());
                return null;
            } catch (InvalidPathException | IOException | LinkageError e) {
                return "load the native library \"" + file + "\", which -D" + PROPERTY
                        + " names: " + first(e);
            }
        }
        String platform = platform();
        if (platform.isEmpty()) {
            return "load the native library: it needs Linux on x86-64 or arm64, and this is "
                    + System.getProperty("os.name") + " on " + System.getProperty("os.arch");
        }
        byte[] library;
        try (InputStream in = Library.class.getResourceAsStream("native/" + platform + "/"
                + FILE)) {
            if (in == null) {
                return "load the native library: nothing on the class path has it for " + platform
                        + ": add the artifact cloudprofiler-native with the classifier " + platform
                        + ", or name the file with -D" + PROPERTY;
            }
            library = in.readAllBytes();
        }
        return loadCopy(library);
    }

    /**
     * Refuses a file that is not a library, because for such a file the JVM would print a warning
     * about its own stack guard.
     */
    private static void checkFormat(Path path) throws IOException {
        try (InputStream in = Files.newInputStream(path)) {
            byte[] header = in.readNBytes(64);
            if (header.length < 64 || header[0] != 0x7F || header[1] != 'E' || header[2] != 'L'
                    || header[3] != 'F') {
                throw new IOException("it is not a library");
            }
        }
    }

    /** Returns the classifier of this platform, or "" if there is no library for it. */
    static String platform() {
        String cpu;
        switch (System.getProperty("os.arch", "")) {
            case "amd64":
            case "x86_64":
                cpu = "x86_64";
                break;
            case "aarch64":
                cpu = "aarch_64";
                break;
            default:
                return "";
        }
        if (!"Linux".equals(System.getProperty("os.name"))) {
            return "";
        }
        return "linux-" + cpu + (hasMusl() ? "-musl" : "");
    }

    /** Returns whether this process runs with musl: then musl's loader is mapped. */
    private static boolean hasMusl() {
        try (Stream<String> maps = Files.lines(Path.of("/proc/self/maps"))) {
            return maps.anyMatch(line -> line.contains("/ld-musl-"));
        } catch (IOException | RuntimeException e) {
            return false;
        }
    }

    private static String loadCopy(byte[] library) {
        List<String> tried = new ArrayList<>();
        for (Path dir : directories()) {
            try {
                loadFrom(dir, library);
                return null;
            } catch (IOException | RuntimeException | LinkageError e) {
                tried.add(dir + ": " + first(e));
            }
        }
        try {
            MemoryFile.load(library);
            return null;
        } catch (Throwable e) { // a call of a method handle may throw any Throwable
            tried.add("memory: " + e.getMessage());
        }
        return "load the native library: name it with -D" + PROPERTY
                + ", because it could not be copied and loaded (" + String.join("; ", tried) + ")";
    }

    /** Returns directories in which this user may be able to write and execute. */
    private static Set<Path> directories() {
        Set<Path> all = new LinkedHashSet<>();
        for (String name : new String[] {System.getProperty("java.io.tmpdir"), "/tmp", "/var/tmp",
            System.getenv("XDG_RUNTIME_DIR"), System.getenv("XDG_CACHE_HOME"),
            System.getProperty("user.home"), "/dev/shm"}) {
            if (name != null && !name.isEmpty()) {
                all.add(Path.of(name).toAbsolutePath());
            }
        }
        return all;
    }

    private static void loadFrom(Path parent, byte[] library) throws IOException {
        Path dir = Files.createTempDirectory(parent, ".cloudprofiler-",
                PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rwx------")));
        Path file = dir.resolve(FILE);
        try {
            Files.write(file, library);
            System.load(file.toString());
        } finally {
            Files.deleteIfExists(file);
            Files.deleteIfExists(dir);
        }
    }

    /** Returns the first line of what an exception says. */
    private static String first(Throwable e) {
        Throwable cause = e instanceof ExceptionInInitializerError && e.getCause() != null
                ? e.getCause() : e;
        String text = cause.getMessage() == null ? "" : cause.getMessage().lines().findFirst()
                .orElse("");
        String name = cause.getClass().getSimpleName();
        return cause.getClass() == IOException.class ? text : name + ": " + text;
    }
}
