package adstream;

import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;

/** Makes the topics of the job. Kafka Streams makes its internal ones by itself. */
public final class Topics {
    static final String EVENTS = "events";
    static final String COUNTS = "counts";

    private Topics() {}

    /** Arguments: the broker's address, and the number of partitions of each topic. */
    public static void main(String[] args) throws Exception {
        int partitions = Integer.parseInt(args[1]);
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            admin.createTopics(List.of(
                    new NewTopic(EVENTS, partitions, (short) 1),
                    new NewTopic(COUNTS, partitions, (short) 1))).all().get();
        }
    }
}
