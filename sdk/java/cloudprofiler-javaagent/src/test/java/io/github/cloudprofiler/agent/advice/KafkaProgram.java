package io.github.cloudprofiler.agent.advice;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.producer.internals.ProducerBatch;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.TimestampType;

/** Does with batches and records what Kafka does, without a broker. Kafka's classes are woven. */
public final class KafkaProgram {
    private static final TopicPartition PLACE = new TopicPartition("orders", 3);

    private KafkaProgram() {}

    private static ProducerBatch batch(int bytes) {
        return new ProducerBatch(PLACE, MemoryRecords.builder(ByteBuffer.allocate(bytes),
                Compression.NONE, TimestampType.CREATE_TIME, 0L), 0);
    }

    /** Sends a record of 1,000 bytes. Returns whether the batch had room. */
    private static boolean send(ProducerBatch batch) {
        KafkaAdvice.sending("a record");
        return batch.tryAppend(0, null, new byte[1000], new Header[0], null, 0) != null;
    }

    /** Returns a batch with this many records. */
    private static ProducerBatch filled(int records) {
        ProducerBatch b = batch(records * 1015 + 80);
        for (int i = 0; i < records; i++) {
            if (!send(b)) {
                throw new AssertionError("record " + i + " found no room");
            }
        }
        return b;
    }

    /** Fills a batch and acknowledges it. Its records get the offsets from the given one on. */
    public static void acknowledge(int records, long offset) {
        ProducerBatch b = filled(records);
        if (send(b)) {
            throw new AssertionError("there is room for one more");
        }
        b.closeForRecordAppends();
        b.complete(offset, -1);
    }

    public static void acknowledgeAfterFailure(long offset) {
        ProducerBatch b = filled(2);
        b.closeForRecordAppends();
        b.completeExceptionally(new RuntimeException("too late"), i -> new RuntimeException());
        b.complete(offset, -1);
        b.complete(offset, -1);
    }

    public static void fail() {
        ProducerBatch b = filled(2);
        b.completeExceptionally(new RuntimeException(), i -> new RuntimeException());
        b = filled(2);
        b.abort(new RuntimeException());
    }

    /** Splits a batch into three parts, whose offsets are 100 apart. The last part is acknowledged
     * first. */
    public static void splitAndAcknowledge(long offset) {
        ProducerBatch b = filled(3);
        b.closeForRecordAppends();
        List<ProducerBatch> parts = new ArrayList<>(b.split(1));
        if (parts.size() != 3) {
            throw new AssertionError(parts.size() + " parts");
        }
        for (int i = 2; i >= 0; i--) {
            parts.get(i).closeForRecordAppends();
            parts.get(i).complete(offset + 100 * i, -1);
        }
    }

    /** A consumer of a group. */
    public static final class Consumer {
        public record Group(String groupId) {}

        String clientId() {
            return "client";
        }

        Group groupMetadata() {
            return new Group("readers");
        }
    }

    /** A consumer of no group. */
    public static final class Alone {
        private final String name;

        Alone(String name) {
            this.name = name;
        }

        String clientId() {
            return name;
        }

        Object groupMetadata() {
            throw new IllegalStateException("no group");
        }
    }

    public static void poll(long... offsets) throws Throwable {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        for (long o : offsets) {
            records.add(new ConsumerRecord<>(PLACE.topic(), PLACE.partition(), o, null, null));
        }
        TopicPartition other = new TopicPartition("empty", 0);
        for (Object c : Set.of(
                new Consumer(), new Alone("alone"), new Alone("a-restore-consumer"))) {
            Object state = KafkaAdvice.consumer(c);
            KafkaAdvice.polled(state, ConsumerRecords.empty());
            KafkaAdvice.polled(state,
                    new ConsumerRecords<>(Map.of(PLACE, records, other, List.of())));
        }
    }
}
