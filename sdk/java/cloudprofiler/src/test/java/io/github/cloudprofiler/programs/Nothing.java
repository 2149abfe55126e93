package io.github.cloudprofiler.programs;

/** Does nothing, so that "cp-bench java" can measure how long a JVM takes to start. */
public final class Nothing {
    private Nothing() {}

    public static void main(String[] args) {}
}
