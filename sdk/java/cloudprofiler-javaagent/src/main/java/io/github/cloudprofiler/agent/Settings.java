package io.github.cloudprofiler.agent;

import io.github.cloudprofiler.agent.Yaml.BadYaml;
import io.github.cloudprofiler.agent.Yaml.Node;
import io.github.cloudprofiler.agent.advice.Points;
import io.github.cloudprofiler.agent.advice.UserAdvice;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/** What the user configured: sets of joinpoints, joinpoints of the user's own, and events. */
final class Settings {
    final List<String> sets = new ArrayList<>(JoinpointSet.READY);
    final List<Joinpoint> joinpoints = new ArrayList<>();
    boolean anyVersion;
    boolean pauses = true;

    /** Reads a configuration. An empty text is the default. */
    static Settings read(String text, String file) throws BadYaml {
        Settings s = new Settings();
        Map<String, Node> m = Yaml.read(text).map("configuration");
        JoinpointSet.Keys.check(m, "the configuration",
                "sets", "any_version", "pauses", "sample", "policy", "dir", "joinpoints");
        if (m.containsKey("sets")) {
            s.sets.clear();
            for (Node n : m.get("sets").list("sets")) {
                String name = n.text("sets");
                if (!JoinpointSet.READY.contains(name)) {
                    throw new BadYaml(n.line(), "there is no set \"" + name + "\": write some of "
                            + String.join(", ", JoinpointSet.READY));
                }
                s.sets.add(name);
            }
        }
        if (m.containsKey("any_version")) {
            s.anyVersion = yes(m.get("any_version"), "any_version");
        }
        if (m.containsKey("pauses")) {
            s.pauses = yes(m.get("pauses"), "pauses");
        }
        Points.Keep keep = keep(m.get("sample"), new Points.Keep(1, 1));
        Points.configure(keep,
                m.containsKey("policy") ? m.get("policy").text("policy") : null,
                m.containsKey("dir") ? m.get("dir").text("dir") : null);
        if (m.containsKey("policy")
                && !m.get("policy").text("policy").matches("block|drop|overwrite")) {
            throw new BadYaml(m.get("policy").line(), "policy: write block, drop or overwrite");
        }
        if (m.containsKey("joinpoints")) {
            for (Node n : m.get("joinpoints").list("joinpoints")) {
                s.joinpoints.add(s.joinpoint(n, keep, file));
            }
        }
        return s;
    }

    private static boolean yes(Node node, String key) throws BadYaml {
        String text = node.text(key);
        if (!text.equals("true") && !text.equals("false")) {
            throw new BadYaml(node.line(), key + ": write true or false");
        }
        return text.equals("true");
    }

    /** Reads which part of the ids is kept, such as 2 of 1,024: {@code {x: 2, y: 1024}}. */
    private static Points.Keep keep(Node sample, Points.Keep otherwise) throws BadYaml {
        if (sample == null) {
            return otherwise;
        }
        Map<String, Node> m = sample.map("sample");
        JoinpointSet.Keys.check(m, "sample", "x", "y");
        if (m.size() < 2) {
            throw new BadYaml(sample.line(), "sample: write such as {x: 2, y: 1024}");
        }
        long x = m.get("x").number("x");
        long y = m.get("y").number("y");
        if (x < 0 || y < 1 || x > y) {
            throw new BadYaml(sample.line(), "sample: x is from 0 to y, and y at least 1");
        }
        return new Points.Keep(x, y);
    }

    private Joinpoint joinpoint(Node node, Points.Keep keep, String file) throws BadYaml {
        Map<String, Node> m = node.map("joinpoint");
        JoinpointSet.Keys.check(m, "a joinpoint",
                "class", "method", "at", "id", "point", "instance", "sample");
        String className = JoinpointSet.Keys.need(m, node, "class");
        String id = JoinpointSet.Keys.need(m, node, "id");
        String point = JoinpointSet.Keys.need(m, node, "point");
        if (!point.matches("[A-Za-z0-9_-][A-Za-z0-9._-]*(#[0-9]+)?/[A-Za-z0-9_-][A-Za-z0-9._-]*")) {
            throw new BadYaml(m.get("point").line(),
                    "point: \"" + point + "\": write actor/point or actor#instance/point");
        }
        int number = UserAdvice.declare(point, keep(m.get("sample"), keep));
        try {
            Expression.read(id); // check it alone, so that a message shows what the user wrote
            Expression.Advice init = null;
            String state = null;
            if (m.containsKey("instance")) {
                Expression instance = Expression.read(m.get("instance").text("instance"));
                state = "user" + number;
                init = new Expression.Advice(
                        "user", "open", List.of(new Expression.Number(number), instance));
            }
            Expression.Advice call = Expression.readAdvice(state == null
                    ? "user.log(" + number + ", " + id + ")" : "user.logTo(state, " + id + ")");
            return new Joinpoint(className, JoinpointSet.Keys.need(m, node, "method"),
                    JoinpointSet.atExit(m), state, init, call, file + " line " + node.line());
        } catch (IllegalArgumentException e) {
            throw new BadYaml(node.line(), e.getMessage());
        }
    }
}
