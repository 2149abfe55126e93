package adstream;

import java.time.Duration;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.IntegerDeserializer;
import org.apache.kafka.common.serialization.LongDeserializer;

/** Reads counts until it has at least the given number of counts, and no further counts come. */
public final class Store {
    private static final Duration QUIET = Duration.ofSeconds(3);

    private Store() {}

    /** Arguments: the broker's address, and the least number of counts. */
    public static void main(String[] args) {
        long wanted = Long.parseLong(args[1]);
        long stored = 0;
        try (KafkaConsumer<Integer, Long> consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", args[0], "group.id", "store",
                        "auto.offset.reset", "earliest"),
                new IntegerDeserializer(), new LongDeserializer())) {
            consumer.subscribe(List.of(Topics.COUNTS));
            for (int read = -1; read != 0 || stored < wanted; stored += read) {
                read = consumer.poll(QUIET).count();
            }
        }
        System.out.println("stored: " + stored);
    }
}
