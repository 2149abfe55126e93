package io.github.cloudprofiler.agent;

import io.github.cloudprofiler.agent.Yaml.BadYaml;
import java.io.File;
import java.io.IOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * Says what would be woven into a program. It reads only the program's class files. If the program
 * is running, its class path is read from /proc. Classes that the program loads in another way,
 * such as from jars that are sent to it, are not checked.
 */
public final class Check {
    private Check() {}

    /**
     * Arguments: [--config FILE] and jars, directories of jars, or the id of a process. Without a
     * program, only the configuration file is checked.
     */
    public static void main(String[] args) {
        System.exit(run(args));
    }

    static int run(String[] args) {
        String config = null;
        List<Path> paths = new ArrayList<>();
        try {
            for (int i = 0; i < args.length; i++) {
                if (args[i].equals("--config") && i + 1 < args.length) {
                    config = args[++i];
                } else if (args[i].matches("[0-9]+")) {
                    paths.addAll(ofProcess(Long.parseLong(args[i])));
                } else {
                    add(Path.of(args[i]), paths);
                }
            }
            if (paths.isEmpty() && config == null) {
                System.err.println("write: java -jar cloudprofiler.jar [--config FILE] [PID|JAR…]");
                return 2;
            }
            Settings settings = Agent.settings(config);
            if (paths.isEmpty()) {
                System.out.println(config + ": can be used");
                return 0;
            }
            return check(Agent.sets(settings), paths, settings.anyVersion) ? 0 : 3;
        } catch (BadYaml | IOException e) {
            System.err.println("check: " + (e instanceof BadYaml ? config + ": " : "")
                    + e.getMessage());
            return 1;
        }
    }

    private static boolean check(List<JoinpointSet> sets, List<Path> paths, boolean anyVersion)
            throws MalformedURLException {
        List<URL> urls = new ArrayList<>();
        for (Path p : paths) {
            urls.add(p.toUri().toURL());
        }
        URLClassLoader loader = new URLClassLoader(
                urls.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
        boolean all = true;
        for (JoinpointSet set : sets) {
            ClassFacts facts = new ClassFacts(loader::getResourceAsStream);
            Fitness fitness = new Fitness(facts, loader, anyVersion);
            if (set.joinpoints().stream().allMatch(j -> facts.find(j.internalName()) == null)) {
                System.out.println(set.name() + ": not on the class path");
                continue;
            }
            List<String> problems = fitness.problems(set);
            System.out.println(set.name() + " " + fitness.version(set) + ": "
                    + (problems.isEmpty() ? "would be woven:" : "would be left alone:"));
            problems.forEach(p -> System.out.println("  " + p));
            for (Joinpoint j : problems.isEmpty() ? set.joinpoints() : List.<Joinpoint>of()) {
                System.out.println("  " + j.className() + "." + j.method()
                        + (j.atExit() ? ", at exit" : ""));
            }
            all &= problems.isEmpty();
        }
        return all;
    }

    /** Reads a process's class path from its command line, or else from its environment. */
    private static List<Path> ofProcess(long pid) throws IOException {
        Path proc = Path.of("/proc", Long.toString(pid));
        String[] command = words(proc.resolve("cmdline"));
        String classPath = null;
        List<Path> paths = new ArrayList<>();
        for (int i = 0; i + 1 < command.length; i++) {
            if (command[i].matches("-cp|-classpath|--class-path")) {
                classPath = command[i + 1];
            } else if (command[i].equals("-jar")) {
                classPath = command[i + 1];
            }
        }
        for (String variable : words(proc.resolve("environ"))) {
            if (classPath == null && variable.startsWith("CLASSPATH=")) {
                classPath = variable.substring("CLASSPATH=".length());
            }
        }
        if (classPath == null) {
            throw new IOException("process " + pid + " has no class path in its command line");
        }
        Path directory = proc.resolve("cwd").toRealPath();
        for (String part : classPath.split(File.pathSeparator)) {
            if (part.endsWith("/*") || part.equals("*")) {
                addJars(directory.resolve(part.substring(0, part.length() - 1)), paths);
            } else if (!part.isEmpty()) {
                paths.add(directory.resolve(part));
            }
        }
        paths.removeIf(p -> !Files.exists(p)); // as the virtual machine does
        return paths;
    }

    private static String[] words(Path file) throws IOException {
        return new String(Files.readAllBytes(file), StandardCharsets.UTF_8).split("\0");
    }

    /** Adds a jar, or a directory and the jars in it. */
    private static void add(Path path, List<Path> to) throws IOException {
        if (!Files.exists(path)) {
            throw new IOException("there is no \"" + path + "\"");
        }
        to.add(path);
        addJars(path, to);
    }

    private static void addJars(Path directory, List<Path> to) throws IOException {
        if (Files.isDirectory(directory)) {
            try (var jars = Files.newDirectoryStream(directory, "*.{jar,JAR}")) {
                jars.forEach(to::add);
            }
        }
    }
}
