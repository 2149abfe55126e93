package io.github.cloudprofiler.programs;

import io.github.cloudprofiler.Channel;

/** Logs ten events, and says how many of them the channel keeps. */
public final class Hello {
    /** An object that the class keeps as long as its loader lives. */
    public static Object kept;

    private Hello() {}

    public static void main(String[] args) {
        Channel c = Channel.open("hello/x");
        int events = 0;
        for (long id = 0; id < 10; id++) {
            events += c.keeps(id) ? 1 : 0;
            c.log(id);
        }
        Channel.open("hello/y").close(); // the complaint comes once
        System.out.println("hello, " + events + " events");
    }
}
