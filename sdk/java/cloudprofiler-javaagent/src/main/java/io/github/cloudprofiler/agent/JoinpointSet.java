package io.github.cloudprofiler.agent;

import io.github.cloudprofiler.agent.Yaml.BadYaml;
import io.github.cloudprofiler.agent.Yaml.Node;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Joinpoints that belong together: those of an engine, or those of the user. Either all of them are
 * woven or none, because an event at one end means little without the event at the other end.
 *
 * @param name the name that messages use
 * @param versions how the known versions of the engine's jar begin; empty: any version
 * @param versionFile a file of properties, one of which is the version; null: the manifest has it
 * @param needs members that the advice uses by reflection: {@code a.b.C.name} for a field, {@code
 *     a.b.C.name()} for a method without parameters
 */
record JoinpointSet(
        String name, List<String> versions, String versionFile, List<Joinpoint> joinpoints,
        List<String> needs) {

    /** The ready-made sets in this jar. */
    static final List<String> READY = List.of("storm", "flink", "kafka", "kafka-streams");

    /** Makes a set of joinpoints that are woven into any version. */
    static JoinpointSet ofAnyVersion(String name, Joinpoint... joinpoints) {
        return new JoinpointSet(name, List.of(), null, List.of(joinpoints), List.of());
    }

    /** Reads a ready-made set. */
    static JoinpointSet ready(String name) throws BadYaml, IOException {
        try (InputStream in = JoinpointSet.class.getResourceAsStream(name + ".yaml")) {
            return read(new String(in.readAllBytes(), StandardCharsets.UTF_8), name);
        }
    }

    static JoinpointSet read(String text, String name) throws BadYaml {
        Map<String, Node> top = Yaml.read(text).map("the set");
        List<String> versions = texts(top.get("versions"), "versions");
        List<Joinpoint> joinpoints = new ArrayList<>();
        for (Node n : top.get("joinpoints").list("joinpoints")) {
            joinpoints.add(joinpoint(n, name));
        }
        Node file = top.get("version_file");
        return new JoinpointSet(name, versions, file == null ? null : file.text("version_file"),
                joinpoints, texts(top.get("needs"), "needs"));
    }

    static List<String> texts(Node list, String what) throws BadYaml {
        List<String> texts = new ArrayList<>();
        if (list != null) {
            for (Node n : list.list(what)) {
                texts.add(n.text(what));
            }
        }
        return texts;
    }

    private static Joinpoint joinpoint(Node node, String set) throws BadYaml {
        Map<String, Node> m = node.map("joinpoint");
        Keys.check(m, "joinpoint", "class", "method", "at", "state", "init", "call");
        String where = set + " line " + node.line();
        try {
            Node init = m.get("init");
            return new Joinpoint(
                    Keys.need(m, node, "class"), Keys.need(m, node, "method"), atExit(m),
                    m.containsKey("state") ? m.get("state").text("state") : null,
                    init == null ? null : Expression.readAdvice(init.text("init")),
                    Expression.readAdvice(Keys.need(m, node, "call")), where);
        } catch (IllegalArgumentException e) {
            throw new BadYaml(node.line(), e.getMessage());
        }
    }

    static boolean atExit(Map<String, Node> m) throws BadYaml {
        Node at = m.get("at");
        String text = at == null ? "entry" : at.text("at");
        if (!text.equals("entry") && !text.equals("exit")) {
            throw new BadYaml(at.line(), "at: \"" + text + "\": write entry or exit");
        }
        return text.equals("exit");
    }

    /** Keys of a map. */
    static final class Keys {
        private Keys() {}

        static void check(Map<String, Node> m, String what, String... known) throws BadYaml {
            for (Map.Entry<String, Node> e : m.entrySet()) {
                if (!List.of(known).contains(e.getKey())) {
                    String near = nearest(e.getKey(), known);
                    throw new BadYaml(e.getValue().line(), what + " has no \"" + e.getKey()
                            + (near == null ? "\": write one of " + String.join(", ", known)
                                    : "\": did you mean \"" + near + "\"?"));
                }
            }
        }

        /** Returns the known word nearest to a wrong one, or null if more than half of the wrong
         * word's letters would have to change. */
        private static String nearest(String wrong, String... known) {
            String best = null;
            int least = wrong.length() / 2 + 1;
            for (String word : known) {
                int d = distance(wrong, word);
                if (d < least) {
                    best = word;
                    least = d;
                }
            }
            return best;
        }

        /** Returns how many letters must be changed, added or removed to turn a into b. */
        private static int distance(String a, String b) {
            int[] row = new int[b.length() + 1];
            for (int j = 0; j <= b.length(); j++) {
                row[j] = j;
            }
            for (int i = 1; i <= a.length(); i++) {
                int diagonal = row[0];
                row[0] = i;
                for (int j = 1; j <= b.length(); j++) {
                    int changed = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
                    diagonal = row[j];
                    row[j] = Math.min(changed, Math.min(row[j], row[j - 1]) + 1);
                }
            }
            return row[b.length()];
        }

        static String need(Map<String, Node> m, Node of, String key) throws BadYaml {
            if (!m.containsKey(key)) {
                throw new BadYaml(of.line(), "\"" + key + "\" is missing");
            }
            return m.get(key).text(key);
        }
    }
}
