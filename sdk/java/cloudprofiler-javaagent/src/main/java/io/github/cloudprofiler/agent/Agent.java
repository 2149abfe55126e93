package io.github.cloudprofiler.agent;

import io.github.cloudprofiler.agent.Yaml.BadYaml;
import java.io.IOException;
import java.lang.instrument.Instrumentation;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * The entry of the agent: the virtual machine calls it before the program's main method.
 *
 * <p>The agent <i>weaves</i> calls into classes when they are loaded. A {@link Joinpoint} is a
 * place in a method at which a call is woven in. The method that is called there belongs to an
 * <i>advice</i> ({@link Advices}), which logs. The joinpoints of an engine are a {@link
 * JoinpointSet}.
 */
public final class Agent {
    private Agent() {}

    /**
     * Starts the agent with the configuration at the given path, or without one. It never throws.
     */
    public static void premain(String path, Instrumentation instrumentation) {
        try {
            NativeAccess.allow(instrumentation);
            Settings settings = settings(path);
            instrumentation.addTransformer(new Weaver(sets(settings), settings.anyVersion));
            if (settings.pauses) {
                Pauses.begin(instrumentation);
            }
        } catch (BadYaml | IOException e) {
            Say.once(reason(path, e) + "; the program runs without the profiler");
        } catch (Throwable t) {
            Say.once("begin: " + t + "; the program runs without the profiler");
        }
    }

    private static String reason(String path, Exception e) {
        return e instanceof BadYaml
                ? "read configuration " + path + ": " + e.getMessage()
                : "read configuration " + path + ": "
                        + (e instanceof NoSuchFileException ? "there is no such file" : e);
    }

    static Settings settings(String path) throws BadYaml, IOException {
        return path == null || path.isEmpty() ? Settings.read("", "")
                : Settings.read(Files.readString(Path.of(path)), path);
    }

    static List<JoinpointSet> sets(Settings settings) throws BadYaml, IOException {
        List<JoinpointSet> sets = new ArrayList<>();
        for (String name : settings.sets) {
            sets.add(JoinpointSet.ready(name));
        }
        // Each of the user's joinpoints is a set of its own, because they do not depend on each
        // other.
        for (Joinpoint j : settings.joinpoints) {
            sets.add(JoinpointSet.ofAnyVersion(j.where(), j));
        }
        return sets;
    }
}
