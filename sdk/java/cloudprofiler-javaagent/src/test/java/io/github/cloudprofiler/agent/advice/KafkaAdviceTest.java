package io.github.cloudprofiler.agent.advice;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.cloudprofiler.agent.TestWeaver;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.LongStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Tests the advice as woven classes of Kafka call it. */
class KafkaAdviceTest {
    private static final long FIRST = KafkaAdvice.first("orders", 3);

    @TempDir
    Path dir;

    @BeforeEach
    void logHere() {
        Points.configure(new Points.Keep(1, 1), null, dir.toString());
    }

    @AfterEach
    void logElsewhere() {
        Points.configure(new Points.Keep(1, 1), null, null);
    }

    private List<Long> ids(String channel) throws IOException {
        return Logged.ids(dir, channel);
    }

    private static List<Long> at(long... offsets) {
        return LongStream.of(offsets).map(o -> FIRST + o).boxed().toList();
    }

    /** Runs a method of the program on a thread of its own, which has no channels yet. */
    private static void run(String version, String method, Object... arguments) throws Throwable {
        Throwable[] thrown = {null};
        Thread t = new Thread(() -> {
            try (TestWeaver kafka = new TestWeaver("kafka", "kafka-clients-" + version)) {
                kafka.call(KafkaProgram.class.getName(), method, arguments);
            } catch (Throwable e) {
                thrown[0] = e;
            }
        });
        t.start();
        t.join();
        if (thrown[0] != null) {
            throw thrown[0];
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"3.9.1", "4.1.1"})
    void bothSidesHaveTheIdsOfTheOffsets(String version) throws Throwable {
        run(version, "acknowledge", 40, 1000L);
        run(version, "poll", new long[] {1000, 1001, 1039, 1041});
        assertEquals(at(LongStream.range(1000, 1040).toArray()), ids("orders/send"));
        assertEquals(at(1000, 1001, 1039, 1041), ids("readers/recv"));
        assertEquals(at(1000, 1001, 1039, 1041), ids("alone/recv"));
        assertEquals(3, Logged.in(dir).size(), "a consumer that restores a state was logged");
    }

    /** The stamp was read at the call of send, and not at the acknowledgement. */
    @ParameterizedTest
    @ValueSource(strings = {"3.9.1", "4.1.1"})
    void partsOfABatchKeepTheirStamps(String version) throws Throwable {
        run(version, "splitAndAcknowledge", 5000L);
        List<Logged.Event> sent = Logged.in(dir).get("orders/send");
        assertEquals(at(5200, 5100, 5000), sent.stream().map(Logged.Event::id).toList());
        assertTrue(sent.get(2).stamp() < sent.get(1).stamp()
                && sent.get(1).stamp() < sent.get(0).stamp(), sent.toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"3.9.1", "4.1.1"})
    void onlyWhatIsInTheTopicIsLogged(String version) throws Throwable {
        run(version, "fail");
        run(version, "acknowledge", 2, -1L); // acks=0
        assertEquals(Map.of(), Logged.in(dir));
        run(version, "acknowledgeAfterFailure", 70L);
        assertEquals(at(70, 71), ids("orders/send"));
    }

    /** What Streams knows of a record that it works on. */
    public record Context(String applicationId, Place recordContext) {}

    /** Where the record of a Context was read; Streams has -1 and no topic for punctuations. */
    public record Place(String topic, int partition, long offset) {}

    private record TaskId(int subtopology, int partition) {}

    private static void streamsSends(Object sink, Object context, String record) throws Throwable {
        StreamsAdvice.collected(sink, context);
        StreamsAdvice.sending(record);
        KafkaAdvice.sending(record);
    }

    @Test
    void whatASinkSendsIsLinked() throws Throwable {
        Object batch = KafkaAdvice.batch("orders", 3);
        Object sink = StreamsAdvice.sink(new TaskId(1, 2));
        streamsSends(sink, new Context("app", new Place("in", 0, 5)), "linked");
        KafkaAdvice.appended(batch, null); // no room: another batch takes it
        KafkaAdvice.appended(batch, "future");
        streamsSends(sink, new Context("app", new Place(null, -1, -1)), "of a punctuation");
        KafkaAdvice.appended(batch, "future");
        streamsSends(sink, null, "of a state store");
        KafkaAdvice.appended(batch, "future");
        KafkaAdvice.sending("the program's own");
        KafkaAdvice.appended(batch, "future");
        StreamsAdvice.collected(sink, new Context("app", new Place("in", 1, 6)));
        KafkaAdvice.sending("the program's own, after Streams could not send");
        KafkaAdvice.appended(batch, "future");
        Thread t = new Thread(() -> KafkaAdvice.acknowledged(batch, 10, 5));
        t.start();
        t.join();
        assertEquals(at(10), ids("app-1#2/send"));
        assertEquals(at(11), ids("app-1#2/unlinked"));
        assertEquals(at(13, 14), ids("orders/send"));
        assertEquals(List.of(KafkaAdvice.first("in", 0) + 5, FIRST + 10), ids("app-1#2/links"));
    }

    @Test
    void aTaskKnowsItsRecords() throws Throwable {
        Object task = StreamsAdvice.task(new TaskId(0, 3), new Context("app", null));
        StreamsAdvice.started(task, "orders", 3, 7);
        StreamsAdvice.ended(task);
        StreamsAdvice.started(task, "in", 3, 7);
        StreamsAdvice.started(task, "in", 4, 7);
        StreamsAdvice.started(task, "orders", 3, 8);
        StreamsAdvice.ended(task);
        assertEquals(List.of(FIRST + 7, KafkaAdvice.first("in", 3) + 7,
                KafkaAdvice.first("in", 4) + 7, FIRST + 8), ids("app-0#3/start"));
        assertEquals(at(7, 8), ids("app-0#3/end"));
    }

    /** The batch began before its class was woven, or a call of the advice failed. */
    @Test
    void aBatchThatWasNotCountedHasNoIds() throws Throwable {
        Object batch = KafkaAdvice.batch("orders", 3);
        KafkaAdvice.sending("a record");
        KafkaAdvice.appended(batch, "future");
        KafkaAdvice.acknowledged(batch, 10, 2);
        KafkaAdvice.acknowledged(null, 10, 2);
        assertEquals(Map.of(), Logged.in(dir));
    }
}
