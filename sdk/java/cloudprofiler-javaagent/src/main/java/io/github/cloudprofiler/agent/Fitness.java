package io.github.cloudprofiler.agent;

import java.io.IOException;
import java.io.InputStream;
import java.net.JarURLConnection;
import java.net.URL;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.jar.Attributes;
import java.util.jar.Manifest;

/** Finds out whether a set of joinpoints fits the classes of a class loader. */
final class Fitness {
    private final ClassFacts facts;
    private final ClassLoader loader;
    private final boolean anyVersion;

    Fitness(ClassFacts facts, ClassLoader loader, boolean anyVersion) {
        this.facts = facts;
        this.loader = loader;
        this.anyVersion = anyVersion;
    }

    /** Returns what does not fit. The list is empty if everything fits. */
    List<String> problems(JoinpointSet set) {
        List<String> problems = new ArrayList<>();
        if (!set.versions().isEmpty() && !anyVersion) {
            String version = version(set);
            if (set.versions().stream().noneMatch(v -> isVersion(version, v))) {
                problems.add("version " + version + " is not one that was tried ("
                        + String.join(", ", set.versions())
                        + "); \"any_version: true\" tries it all the same");
            }
        }
        for (Joinpoint j : set.joinpoints()) {
            String problem = problem(j);
            if (problem != null) {
                problems.add(problem + " (" + j.where() + ")");
            }
        }
        for (String need : set.needs()) {
            if (!isThere(need)) {
                problems.add("there is no " + need);
            }
        }
        return problems;
    }

    private static boolean isVersion(String version, String beginning) {
        return version.equals(beginning) || version.startsWith(beginning + ".");
    }

    /**
     * Returns the version of the jar with the set's first class. If the set names a file, the
     * version is read from that file, and otherwise from the manifest. If the engine's classes were
     * packed into the program's own jar, the engine's manifest is lost, but the file is not.
     */
    String version(JoinpointSet set) {
        String version = set.versionFile() == null ? manifestVersion(set) : fileVersion(set);
        return version == null ? "unknown" : version;
    }

    private String manifestVersion(JoinpointSet set) {
        String path = set.joinpoints().get(0).internalName() + ".class";
        URL url = loader == null ? null : loader.getResource(path);
        try {
            if (url != null && url.openConnection() instanceof JarURLConnection jar) {
                Manifest manifest = jar.getManifest();
                return manifest == null ? null : manifest.getMainAttributes()
                        .getValue(Attributes.Name.IMPLEMENTATION_VERSION);
            }
        } catch (IOException e) {
            // The version stays unknown.
        }
        return null;
    }

    private String fileVersion(JoinpointSet set) {
        Properties properties = new Properties();
        try (InputStream in = loader == null
                ? null : loader.getResourceAsStream(set.versionFile())) {
            if (in != null) {
                properties.load(in);
            }
        } catch (IOException e) {
            // The version stays unknown.
        }
        return properties.getProperty("version");
    }

    private String problem(Joinpoint j) {
        ClassFacts.Facts type = facts.find(j.internalName());
        if (type == null) {
            return "there is no class " + j.className();
        }
        if (type.isInterface()) {
            return j.className() + " is an interface: name a class that implements it";
        }
        List<ClassFacts.Member> methods = Weaver.methods(facts, j);
        if (methods.size() != 1) {
            return j.className() + " has " + methods.size() + " methods " + j.method()
                    + (methods.isEmpty() ? "" : ": write the types of its parameters");
        }
        ClassFacts.Member m = methods.get(0);
        if ((m.access() & 0x500) != 0) { // abstract, native
            return j.className() + "." + j.method() + " has no code";
        }
        if (m.name().equals("<init>") && !j.atExit()) {
            return j.className() + ": a constructor needs \"at: exit\"";
        }
        if (j.state() != null && m.isStatic()) {
            return j.className() + "." + j.method() + " is static and has no object";
        }
        try {
            Compiler compiler = Weaver.compiler(facts, j, m, 0);
            if (j.init() != null) {
                compiler.advice(null, j.init());
            }
            compiler.advice(null, j.call());
            String lost = j.lost(facts, m);
            return lost == null ? null : j.className() + "." + j.methodName() + " overwrites "
                    + lost + ", which is not there \"at: exit\"";
        } catch (Compiler.Unfit e) {
            return j.className() + "." + j.methodName() + ": " + e.getMessage();
        }
    }

    private boolean isThere(String need) {
        int dot = need.lastIndexOf('.');
        String owner = need.substring(0, dot).replace('.', '/');
        String member = need.substring(dot + 1);
        if (!member.endsWith(")")) {
            return facts.field(owner, member) != null;
        }
        String name = member.substring(0, member.indexOf('('));
        ClassFacts.Facts f = facts.find(owner);
        return facts.getter(owner, name) != null
                || f != null && f.methods().values().stream().anyMatch(m -> m.name().equals(name));
    }
}
