package io.github.cloudprofiler.programs;

import io.github.cloudprofiler.Channel;
import io.github.cloudprofiler.Ids;
import io.github.cloudprofiler.Options;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;

/**
 * Carries out orders, one on each line, and answers each with a line: see sdk/c/test/writer.c. The
 * conformance test gives the same orders to programs in Go and C. Only this program knows these
 * orders:
 *
 * <pre>
 * exit FIRST COUNT         end the JVM, and log in a shutdown hook
 * virtual FIRST COUNT      log each event in a virtual thread of its own
 * raced FIRST COUNT        log, while another thread closes the channel
 * </pre>
 */
public final class Writer {
    private Channel channel;
    private Ids ids;

    public static void main(String[] args) throws Exception {
        Writer writer = new Writer();
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = orders.readLine()) != null; ) {
            String answer = writer.obey(line.trim().split(" +"));
            System.out.println(answer == null ? "ok" : answer);
        }
    }

    private String obey(String[] words) throws Exception {
        switch (words[0]) {
            case "open":
                return open(words);
            case "log":
                log(number(words[1]), number(words[2]));
                return null;
            case "at":
                for (long i = 0; i < number(words[3]); i++) {
                    channel.logAt(number(words[1]), number(words[2]) + i);
                }
                return null;
            case "link":
                channel.link(number(words[1]), number(words[2]));
                return null;
            case "dropped":
                return Long.toString(channel.dropped());
            case "snapshot":
                channel.snapshot();
                return null;
            case "close":
                channel.close();
                return null;
            case "ids":
                ids = Ids.open(null, Integer.parseInt(words[1]));
                return ids.error();
            case "next":
                return next(number(words[1]));
            case "close-ids":
                ids.close();
                return null;
            case "exit":
                Runtime.getRuntime().addShutdownHook(new Thread(() ->
                        log(number(words[1]), number(words[2]))));
                new Thread(() -> System.exit(0)).start();
                return null;
            case "virtual":
                logInVirtualThreads(number(words[1]), number(words[2]));
                return null;
            case "raced":
                Thread closer = new Thread(channel::close);
                closer.start();
                log(number(words[1]), number(words[2]));
                closer.join();
                return null;
            default:
                return "unknown order";
        }
    }

    private String open(String[] words) {
        Options o = new Options()
                .handler(given(words[3]))
                .n(number(words[4]))
                .x(number(words[5]))
                .y(number(words[6]))
                .period(Duration.ofNanos(number(words[7])))
                .policy(given(words[8]))
                .stamp(given(words[9]))
                .bufferBytes(number(words[10]));
        boolean shared = words[1].equals("shared");
        channel = shared ? Channel.openShared(words[2], o) : Channel.open(words[2], o);
        return channel.error();
    }

    private void log(long first, long count) {
        for (long i = 0; i < count; i++) {
            channel.log(first + i);
        }
    }

    private String next(long count) {
        long id = 0;
        for (long i = 0; i < count; i++) {
            id = ids.next();
            if (id == Ids.NONE) {
                return "no id";
            }
        }
        return Long.toUnsignedString(id);
    }

    /** Java 17 has no virtual threads, so this program finds them by reflection. */
    private void logInVirtualThreads(long first, long count) throws Exception {
        Thread[] threads = new Thread[(int) count];
        for (int i = 0; i < count; i++) {
            long id = first + i;
            threads[i] = (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class)
                    .invoke(null, (Runnable) () -> channel.log(id));
        }
        for (Thread t : threads) {
            t.join();
        }
    }

    private static String given(String word) {
        return word.equals("-") ? null : word;
    }

    private static long number(String word) {
        return Long.parseUnsignedLong(word);
    }
}
