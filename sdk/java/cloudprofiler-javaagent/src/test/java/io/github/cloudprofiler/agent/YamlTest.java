package io.github.cloudprofiler.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.cloudprofiler.agent.Yaml.BadYaml;
import io.github.cloudprofiler.agent.Yaml.Node;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class YamlTest {
    private static String plain(Node n) {
        if (n.value() instanceof Map<?, ?> map) {
            return map.entrySet().stream().map(e -> e.getKey() + "=" + plain((Node) e.getValue()))
                    .collect(Collectors.joining(",", "{", "}"));
        }
        if (n.value() instanceof List<?> list) {
            return list.stream().map(e -> plain((Node) e)).collect(
                    Collectors.joining(",", "[", "]"));
        }
        return String.valueOf(n.value());
    }

    @Test
    void readsMapsAndLists() throws BadYaml {
        String text = """
                ---
                a: 1 # one
                b:
                  c: "x # y"
                  d: [1, 'two, three', {e: f}]
                g:
                - h: i
                  j: k(l, m)
                - n
                o: {p: 2, q: r.s(t, u)}
                s:
                  t(u,
                  v)
                w:
                """;
        assertEquals("{a=1,b={c=x # y,d=[1,two, three,{e=f}]},g=[{h=i,j=k(l, m)},n],"
                + "o={p=2,q=r.s(t, u)},s=t(u, v),w=null}", plain(Yaml.read(text)));
    }

    @Test
    void anEmptyTextHasNoValue() throws BadYaml {
        assertEquals("null", plain(Yaml.read("# nothing\n\n")));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '!', textBlock = """
            a: 1\\n\\tb: 2 ! line 2: indent with spaces, not with tabs
            a: 1\\na: 2 ! line 2: "a" is there twice
            a: 1\\nb ! line 2: "b": write "key: value"
            a: [1, 2 ! line 1: "[1, 2": no ] at the end of the line
            a: {b} ! line 1: "b": write "key: value"
            a: "b ! line 1: "b: the quote does not end at the value's end
            a: &b ! line 1: "&b": put the value in quotes
            a:\\n   b: 1\\n  c: 2 ! line 3: indentation fits no line above
            """)
    void namesTheLineOfAnError(String text, String message) {
        String yaml = text.replace("\\n", "\n").replace("\\t", "\t");
        assertEquals(message, assertThrows(BadYaml.class, () -> Yaml.read(yaml)).getMessage());
    }
}
