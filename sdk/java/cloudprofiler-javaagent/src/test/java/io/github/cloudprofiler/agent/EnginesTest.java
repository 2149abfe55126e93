package io.github.cloudprofiler.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.InputStream;
import java.net.URLClassLoader;
import java.util.List;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Tests whether the ready-made sets fit the engines' own jars from Maven Central. */
class EnginesTest {
    @ParameterizedTest
    @CsvSource({
        "flink, 1.20.5, flink-runtime-1.20.5 flink-streaming-java-1.20.5 flink-core-1.20.5",
        "flink, 2.3.0, flink-runtime-2.3.0 flink-core-2.3.0",
        "storm, 2.8.3, storm-client-2.8.3",
        "kafka, 3.9.1, kafka-clients-3.9.1",
        "kafka, 4.1.1, kafka-clients-4.1.1",
        "kafka-streams, 3.9.1, kafka-streams-3.9.1 kafka-clients-3.9.1",
        "kafka-streams, 4.1.1, kafka-streams-4.1.1 kafka-clients-4.1.1",
    })
    void everyJoinpointFits(String set, String version, String jars) throws Exception {
        try (URLClassLoader loader = new EngineJars(jars.split(" "))) {
            JoinpointSet s = JoinpointSet.ready(set);
            Fitness f = new Fitness(new ClassFacts(loader::getResourceAsStream), loader, false);
            assertEquals(version, f.version(s));
            assertEquals(List.of(), f.problems(s));
            Weaver weaver = new Weaver(List.of(s), false);
            for (Joinpoint j : s.joinpoints()) {
                try (InputStream in = loader.getResourceAsStream(j.internalName() + ".class")) {
                    byte[] woven = weaver.transform(
                            loader, j.internalName(), null, null, in.readAllBytes());
                    assertTrue(woven != null, j.className());
                    assertTrue(ClassFacts.of(woven).methods().keySet().stream()
                            .anyMatch(m -> m.startsWith("$cloudprofiler$")), j.className());
                }
            }
        }
    }

    @ParameterizedTest
    @CsvSource({
        "flink, flink-runtime-1.20.5 flink-core-1.20.5", // no classes of streaming
    })
    void whatDoesNotFitIsLeftAlone(String set, String jars) throws Exception {
        try (URLClassLoader loader = new EngineJars(jars.split(" "))) {
            JoinpointSet s = JoinpointSet.ready(set);
            Fitness f = new Fitness(new ClassFacts(loader::getResourceAsStream), loader, false);
            assertFalse(f.problems(s).isEmpty());
            Joinpoint j = s.joinpoints().get(0);
            try (InputStream in = loader.getResourceAsStream(j.internalName() + ".class")) {
                assertEquals(null, new Weaver(List.of(s), false).transform(
                        loader, j.internalName(), null, null, in.readAllBytes()));
            }
        }
    }

    @ParameterizedTest
    @CsvSource({"1.19, false", "1.2, false", "1.20, true", "1.20.5, true", "1.20.50, false"})
    void onlyVersionsThatWereTriedAreWoven(String known, boolean fits) throws Exception {
        String[] jars =
                {"flink-runtime-1.20.5", "flink-streaming-java-1.20.5", "flink-core-1.20.5"};
        try (URLClassLoader loader = new EngineJars(jars)) {
            JoinpointSet s = JoinpointSet.ready("flink");
            JoinpointSet other =
                    new JoinpointSet(
                            s.name(), List.of(known), null, s.joinpoints(), s.needs());
            ClassFacts facts = new ClassFacts(loader::getResourceAsStream);
            assertEquals(fits, new Fitness(facts, loader, false).problems(other).isEmpty());
            assertTrue(new Fitness(facts, loader, true).problems(other).isEmpty());
        }
    }
}
