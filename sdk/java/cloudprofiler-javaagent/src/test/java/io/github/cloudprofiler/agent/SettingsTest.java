package io.github.cloudprofiler.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.cloudprofiler.agent.Yaml.BadYaml;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class SettingsTest {
    @Test
    void readsAJoinpoint() throws BadYaml {
        Settings s = Settings.read("""
                sets: [flink]
                sample: {x: 2, y: 1024}
                joinpoints:
                  - class: com.example.Parser
                    method: parse(com.example.Tuple, int)
                    at: exit
                    id: $1.getId()
                    point: parser/end
                """, "c.yaml");
        assertEquals("[flink]", s.sets.toString());
        Joinpoint j = s.joinpoints.get(0);
        assertEquals("com/example/Parser", j.internalName());
        assertEquals("parse", j.methodName());
        assertEquals("c.yaml line 4", j.where());
    }

    @ParameterizedTest
    @CsvSource(delimiter = '!', textBlock = """
            set: x ! line 1: the configuration has no "set": did you mean "sets"?
            sets: [flink]\\n\\nplocy: drop ! line 3: the configuration has no "plocy": did you mean
            wholly: x ! line 1: the configuration has no "wholly": write one of sets
            sets: [spark] ! line 1: there is no set "spark": write some of
            sample: 3 ! line 1: sample: write "key: value" lines
            sample: {x: 3, y: 2} ! line 1: sample: x is from 0 to y
            sample: {x: a, y: 2} ! line 1: x: "a" is not a number
            policy: wait ! line 1: policy: write block, drop or overwrite
            any_version: yes ! line 1: any_version: write true or false
            joinpoints:\\n- class: C ! line 2: "id" is missing
            joinpoints:\\n- {class: C, method: m, id: this.x, point: p} ! line 2: point: "p": write
            joinpoints:\\n- {class: C, method: m, id: x, point: p/q} ! line 2: "x": "x" is neither
            joinpoints:\\n- {class: C, method: m, id: $1.f(2), point: p/q} ! line 2: "$1.f(2)": ')'
            joinpoints:\\n- {class: C, method: m, at: no, id: $1, point: p/q} ! line 2: at: "no": wr
            """)
    void saysWhatIsWrong(String text, String message) {
        String m = assertThrows(BadYaml.class,
                () -> Settings.read(text.replace("\\n", "\n"), "c.yaml")).getMessage();
        assertEquals(message, m.substring(0, Math.min(m.length(), message.length())));
    }
}
