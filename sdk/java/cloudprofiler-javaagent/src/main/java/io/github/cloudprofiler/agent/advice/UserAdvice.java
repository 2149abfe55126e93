package io.github.cloudprofiler.agent.advice;

import io.github.cloudprofiler.Channel;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** The advice of joinpoints that the user configured: logs an id. */
public final class UserAdvice {
    private record Declared(String point, Points.Keep keep) {}

    private static final List<Declared> DECLARED = new ArrayList<>();
    private static volatile Channel[] channels = {};
    private static final Map<String, Channel> INSTANCES = new ConcurrentHashMap<>();

    private UserAdvice() {}

    /** Declares a point and returns its number. The channel is opened when it is first needed. */
    public static synchronized int declare(String point, Points.Keep keep) {
        DECLARED.add(new Declared(point, keep));
        return DECLARED.size() - 1;
    }

    /** Logs an id at a point. */
    public static void log(int number, long id) {
        Channel[] all = channels;
        Channel c = number < all.length ? all[number] : null;
        if (c == null) {
            c = open(number);
        }
        logTo(c, id);
    }

    private static synchronized Channel open(int number) {
        if (number >= channels.length || channels[number] == null) {
            Channel[] more = java.util.Arrays.copyOf(channels, DECLARED.size());
            Declared d = DECLARED.get(number);
            more[number] = Points.open(d.point, true, d.keep);
            channels = more;
        }
        return channels[number];
    }

    /** Opens the channel of an instance of a point. */
    public static Object open(int number, long instance) {
        Declared d = DECLARED.get(number);
        String name = d.point.replaceFirst("(#[0-9]+)?/", "#" + instance + "/");
        return INSTANCES.computeIfAbsent(name, n -> Points.open(n, true, d.keep));
    }

    /** Logs an id to a channel that open returned. */
    public static void logTo(Object channel, long id) {
        Channel c = (Channel) channel;
        if (c.keeps(id)) {
            c.log(id);
        }
    }
}
