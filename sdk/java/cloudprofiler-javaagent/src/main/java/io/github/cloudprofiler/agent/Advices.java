package io.github.cloudprofiler.agent;

import io.github.cloudprofiler.agent.advice.FlinkAdvice;
import io.github.cloudprofiler.agent.advice.KafkaAdvice;
import io.github.cloudprofiler.agent.advice.StormAdvice;
import io.github.cloudprofiler.agent.advice.StreamsAdvice;
import io.github.cloudprofiler.agent.advice.UserAdvice;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The advices that joinpoints may name. An advice is a class whose methods woven code calls. */
final class Advices {
    private static final Map<String, Class<?>> ALL = new ConcurrentHashMap<>(Map.of(
            "flink", FlinkAdvice.class, "storm", StormAdvice.class, "kafka", KafkaAdvice.class,
            "streams", StreamsAdvice.class, "user", UserAdvice.class));

    private Advices() {}

    /** Returns an advice's class, or null. */
    static Class<?> named(String name) {
        return ALL.get(name);
    }

    /** Adds an advice. */
    static void add(String name, Class<?> advice) {
        ALL.put(name, advice);
    }
}
