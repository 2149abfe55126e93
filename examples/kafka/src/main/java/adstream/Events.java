package adstream;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Reads events, which are lines, from a socket until the socket's end, and puts them into a topic.
 * */
public final class Events {
    private static final String HOST = "127.0.0.1";

    private Events() {}

    /** Arguments: the broker's address, and the port from which events come. */
    public static void main(String[] args) throws Exception {
        AtomicLong failed = new AtomicLong();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                        Map.of("bootstrap.servers", args[0]), new StringSerializer(),
                        new StringSerializer());
                BufferedReader in = new BufferedReader(new InputStreamReader(
                        new Socket(HOST, Integer.parseInt(args[1])).getInputStream(),
                        StandardCharsets.US_ASCII))) {
            for (String line; (line = in.readLine()) != null;) {
                put(producer, id(line), line, failed);
            }
        }
        System.out.println("failed: " + failed);
    }

    private static void put(
            KafkaProducer<String, String> producer, long id, String event, AtomicLong failed) {
        producer.send(new ProducerRecord<>(Topics.EVENTS, Long.toUnsignedString(id), event),
                (metadata, e) -> failed.addAndGet(e == null ? 0 : 1));
    }

    private static long id(String event) {
        int from = event.indexOf(':') + 1;
        return Long.parseUnsignedLong(event, from, event.indexOf(','), 10);
    }
}
