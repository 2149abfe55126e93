package adstream;

import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends events on a schedule that does not wait. */
public final class Events {
    private static final int ADS = 1000;
    private static final String[] TYPES = {"view", "click", "purchase"};

    private Events() {}

    /** Arguments: the broker's address, how many events, how many a second. */
    public static void main(String[] args) throws Exception {
        long events = Long.parseLong(args[1]);
        double perSecond = Double.parseDouble(args[2]);
        AtomicLong failed = new AtomicLong();
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", args[0]), new StringSerializer(),
                new StringSerializer())) {
            long begun_ns = System.nanoTime();
            for (long n = 0; n < events; n++) {
                long due_ns = begun_ns + (long) (n / perSecond * 1e9);
                for (long left_ns; (left_ns = due_ns - System.nanoTime()) > 0;) {
                    LockSupport.parkNanos(left_ns);
                }
                producer.send(new ProducerRecord<>(Topics.EVENTS, "page-" + n % 1000, event(n)),
                        (metadata, e) -> failed.addAndGet(e == null ? 0 : 1));
            }
        }
        System.out.println("failed: " + failed);
    }

    private static String event(long n) {
        return "{\"ad\":\"ad-" + n * 7919 % ADS + "\",\"type\":\"" + TYPES[(int) (n % 3)]
                + "\",\"time\":" + System.currentTimeMillis() + ",\"page\":\"page-" + n % 1000
                + "\",\"ip\":\"10.0.0." + n % 250 + "\"}";
    }
}
