package io.github.cloudprofiler.agent;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads the part of YAML that configurations need: maps and lists by indentation, one-line lists
 * and maps in brackets, plain and quoted scalars, comments. Anything else is an error that names
 * its line. The values are {@link Node}s, so that whoever reads them can name the line too.
 */
final class Yaml {
    /** A value and where it is: a String, a List of Nodes or a Map from String to Node. */
    record Node(Object value, int line) {
        @SuppressWarnings("unchecked")
        Map<String, Node> map(String what) throws BadYaml {
            if (value == null) {
                return Map.of();
            }
            if (value instanceof Map<?, ?> map) {
                return (Map<String, Node>) map;
            }
            throw new BadYaml(line, what + ": write \"key: value\" lines");
        }

        @SuppressWarnings("unchecked")
        List<Node> list(String what) throws BadYaml {
            if (value instanceof List<?> list) {
                return (List<Node>) list;
            }
            throw new BadYaml(line, what + ": write a list, each entry after \"- \"");
        }

        String text(String what) throws BadYaml {
            if (value instanceof String text) {
                return text;
            }
            throw new BadYaml(line, what + ": write one value");
        }

        long number(String what) throws BadYaml {
            try {
                return Long.parseLong(text(what));
            } catch (NumberFormatException e) {
                throw new BadYaml(line, what + ": \"" + value + "\" is not a number");
            }
        }
    }

    /** Says what is wrong in which line. */
    static final class BadYaml extends Exception {
        private static final long serialVersionUID = 1;

        BadYaml(int line, String what) {
            super("line " + line + ": " + what);
        }
    }

    private record Line(int number, int indent, String text) {}

    private final List<Line> lines = new ArrayList<>();
    private int next;

    /** Reads a text. The result's value is null if the text has no line. */
    static Node read(String text) throws BadYaml {
        Yaml y = new Yaml();
        int number = 0;
        for (String raw : text.split("\n", -1)) {
            number++;
            String line = withoutComment(raw.replace("\r", "")).stripTrailing();
            String content = line.stripLeading();
            int indent = line.length() - content.length();
            if (line.substring(0, indent).indexOf('\t') >= 0) {
                throw new BadYaml(number, "indent with spaces, not with tabs");
            }
            if (!content.isEmpty() && !(content.equals("---") && y.lines.isEmpty())) {
                y.lines.add(new Line(number, indent, content));
            }
        }
        if (y.lines.isEmpty()) {
            return new Node(null, 1);
        }
        Node node = y.block(y.lines.get(0).indent);
        if (y.next < y.lines.size()) {
            throw new BadYaml(y.lines.get(y.next).number, "indentation fits no line above");
        }
        return node;
    }

    private static String withoutComment(String line) {
        char quote = 0;
        for (int i = 0; i < line.length(); i++) {
            char c = line.charAt(i);
            if (quote != 0) {
                quote = c == quote ? 0 : quote;
            } else if (c == '"' || c == '\'') {
                quote = i == 0 || " [{,:-".indexOf(line.charAt(i - 1)) >= 0 ? c : 0;
            } else if (c == '#' && (i == 0 || line.charAt(i - 1) == ' ')) {
                return line.substring(0, i);
            }
        }
        return line;
    }

    private boolean inBlock(int indent) {
        return next < lines.size() && lines.get(next).indent == indent;
    }

    private static boolean isItem(String text) {
        return text.equals("-") || text.startsWith("- ");
    }

    private Node block(int indent) throws BadYaml {
        Line first = lines.get(next);
        if (isItem(first.text)) {
            return new Node(items(indent), first.number);
        }
        if (colon(first.text) < 0) {
            return scalarOrFlow(folded(indent), first.number);
        }
        return new Node(entries(indent), first.number);
    }

    /** Reads a value. The value may continue in lines with the same indentation. */
    private String folded(int indent) {
        StringBuilder text = new StringBuilder(lines.get(next++).text);
        while (inBlock(indent) && !isItem(lines.get(next).text)
                && colon(lines.get(next).text) < 0) {
            text.append(' ').append(lines.get(next++).text);
        }
        return text.toString();
    }

    private List<Node> items(int indent) throws BadYaml {
        List<Node> list = new ArrayList<>();
        while (inBlock(indent) && isItem(lines.get(next).text)) {
            Line line = lines.get(next);
            String rest = line.text.substring(1).stripLeading();
            if (rest.isEmpty()) {
                next++;
                list.add(nested(indent, line.number));
                continue;
            }
            // The text after the dash begins a block. The column of this text is the block's
            // indentation.
            int inner = indent + line.text.length() - rest.length();
            lines.set(next, new Line(line.number, inner, rest));
            list.add(block(inner));
        }
        return list;
    }

    private Map<String, Node> entries(int indent) throws BadYaml {
        Map<String, Node> map = new LinkedHashMap<>();
        while (inBlock(indent) && !isItem(lines.get(next).text)) {
            Line line = lines.get(next++);
            int colon = colon(line.text);
            if (colon < 0) {
                throw new BadYaml(line.number, "\"" + line.text + "\": write \"key: value\"");
            }
            String key = unquoted(line.text.substring(0, colon).strip(), line.number);
            String rest = line.text.substring(colon + 1).strip();
            Node value = rest.isEmpty()
                    ? nestedOrItems(indent, line.number) : scalarOrFlow(rest, line.number);
            if (map.put(key, value) != null) {
                throw new BadYaml(line.number, "\"" + key + "\" is there twice");
            }
        }
        return map;
    }

    /** Reads what is below a key. A list there need not be indented more than its key. */
    private Node nestedOrItems(int indent, int line) throws BadYaml {
        if (inBlock(indent) && isItem(lines.get(next).text)) {
            return new Node(items(indent), line);
        }
        return nested(indent, line);
    }

    private Node nested(int indent, int line) throws BadYaml {
        if (next < lines.size() && lines.get(next).indent > indent) {
            return block(lines.get(next).indent);
        }
        return new Node(null, line);
    }

    /** Returns the index of the colon after a key, or -1. */
    private static int colon(String text) {
        char quote = text.charAt(0) == '"' || text.charAt(0) == '\'' ? text.charAt(0) : 0;
        for (int i = quote == 0 ? 0 : text.indexOf(quote, 1) + 1; i < text.length(); i++) {
            if (i == 0 && "[{".indexOf(text.charAt(0)) >= 0) {
                return -1;
            }
            if (text.charAt(i) == ':' && (i + 1 == text.length() || text.charAt(i + 1) == ' ')) {
                return i;
            }
        }
        return -1;
    }

    private static Node scalarOrFlow(String text, int line) throws BadYaml {
        if (!text.startsWith("[") && !text.startsWith("{")) {
            if ("&*!|>%@`".indexOf(text.charAt(0)) >= 0) {
                throw new BadYaml(line, "\"" + text + "\": put the value in quotes");
            }
            return new Node(unquoted(text, line), line);
        }
        char close = text.charAt(0) == '[' ? ']' : '}';
        if (text.charAt(text.length() - 1) != close) {
            throw new BadYaml(line, "\"" + text + "\": no " + close + " at the end of the line");
        }
        List<Node> list = new ArrayList<>();
        Map<String, Node> map = new LinkedHashMap<>();
        for (String part : parts(text.substring(1, text.length() - 1))) {
            if (close == ']') {
                list.add(scalarOrFlow(part, line));
                continue;
            }
            int colon = colon(part);
            if (colon < 0) {
                throw new BadYaml(line, "\"" + part + "\": write \"key: value\"");
            }
            String key = unquoted(part.substring(0, colon).strip(), line);
            String rest = part.substring(colon + 1).strip();
            if (rest.isEmpty() || map.put(key, scalarOrFlow(rest, line)) != null) {
                throw new BadYaml(line, "\"" + key + "\" has no value, or is there twice");
            }
        }
        return new Node(close == ']' ? list : map, line);
    }

    /** Splits a text at the commas that are in no brackets and in no quotes. */
    private static List<String> parts(String text) {
        List<String> parts = new ArrayList<>();
        int depth = 0;
        int from = 0;
        char quote = 0;
        for (int i = 0; i <= text.length(); i++) {
            char c = i < text.length() ? text.charAt(i) : ',';
            if (quote != 0 && i < text.length()) {
                quote = c == quote ? 0 : quote;
            } else if (c == '"' || c == '\'') {
                quote = c;
            } else if ("[{(".indexOf(c) >= 0) {
                depth++;
            } else if ("]})".indexOf(c) >= 0) {
                depth--;
            } else if (c == ',' && (depth == 0 || i == text.length())) {
                String part = text.substring(from, i).strip();
                from = i + 1;
                if (!part.isEmpty()) {
                    parts.add(part);
                }
            }
        }
        return parts;
    }

    private static String unquoted(String text, int line) throws BadYaml {
        char first = text.isEmpty() ? 0 : text.charAt(0);
        if (first != '"' && first != '\'') {
            return text;
        }
        int end = text.indexOf(first, 1);
        if (end != text.length() - 1) {
            throw new BadYaml(line, text + ": the quote does not end at the value's end");
        }
        return text.substring(1, end);
    }
}
