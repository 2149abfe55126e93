package adstream;

import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * The advertising benchmark in Kafka Streams: events of advertisements are parsed, the views among
 * them are kept, joined with their campaigns, and counted by campaign.
 */
public final class Application {
    private static final int ADS_OF_A_CAMPAIGN = 10;

    private Application() {}

    /** Arguments: the broker's address, and a directory for the state. */
    public static void main(String[] args) throws Exception {
        StreamsBuilder b = new StreamsBuilder();
        b.stream(Topics.EVENTS, Consumed.with(Serdes.String(), Serdes.String()))
                .mapValues(Application::parse)
                .filter((key, event) -> event[1].equals("view"))
                .map((key, event) -> new org.apache.kafka.streams.KeyValue<>(
                        campaign(event[0]), event[0]))
                .groupByKey(Grouped.with("by-campaign", Serdes.Integer(), Serdes.String()))
                .count(Materialized.<Integer, Long>as(Stores.inMemoryKeyValueStore("campaigns"))
                        .withKeySerde(Serdes.Integer()).withValueSerde(Serdes.Long()))
                .toStream()
                .to(Topics.COUNTS, Produced.with(Serdes.Integer(), Serdes.Long()));
        Properties p = new Properties();
        p.put("application.id", "advertising");
        p.put("bootstrap.servers", args[0]);
        p.put("state.dir", args[1]);
        p.put("statestore.cache.max.bytes", 0); // else a cache keeps results for a while
        p.put("consumer.session.timeout.ms", 6000);
        p.put("consumer.auto.offset.reset", "earliest");
        KafkaStreams streams = new KafkaStreams(b.build(), p);
        CountDownLatch ended = new CountDownLatch(1);
        streams.setStateListener((now, before) -> System.out.println("state: " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            streams.close();
            ended.countDown();
        }));
        streams.start();
        ended.await();
    }

    private static String[] parse(String event) {
        return new String[] {field(event, "ad"), field(event, "type")};
    }

    private static String field(String event, String name) {
        int from = event.indexOf("\"" + name + "\":") + name.length() + 3;
        int to = event.indexOf(',', from);
        return event.substring(from, to < 0 ? event.length() - 1 : to).replace("\"", "");
    }

    private static int campaign(String ad) {
        return Integer.parseInt(ad.substring(3)) / ADS_OF_A_CAMPAIGN;
    }
}
