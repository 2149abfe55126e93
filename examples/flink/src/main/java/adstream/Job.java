package adstream;

import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;

/**
 * The advertising benchmark: events of advertisements are parsed, the views among them are kept,
 * joined with their campaigns, and counted by campaign and window.
 */
public final class Job {
    private static final int CAMPAIGNS = 100;
    private static final int ADS_OF_A_CAMPAIGN = 10;
    private static final String[] TYPES = {"view", "click", "purchase"};

    private Job() {}

    /** Arguments: how many events, how many a second, and on how many TaskManagers. */
    public static void main(String[] args) throws Exception {
        long events = Long.parseLong(args[0]);
        double perSecond = Double.parseDouble(args[1]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(Integer.parseInt(args[2]));
        env.setBufferTimeout(5);

        DataGeneratorSource<String> source = new DataGeneratorSource<>(
                Job::event, events, RateLimiterStrategy.perSecond(perSecond), Types.STRING);
        DataStream<Tuple3<String, String, Long>> parsed = env
                .fromSource(source, WatermarkStrategy.noWatermarks(), "events")
                .rebalance()
                .map(Job::parse).returns(Types.TUPLE(Types.STRING, Types.STRING, Types.LONG))
                .name("deserialise");
        parsed.rebalance()
                .filter(e -> e.f1.equals("view")).name("filter")
                .map(e -> Tuple2.of(e.f0, e.f2)).returns(Types.TUPLE(Types.STRING, Types.LONG))
                .name("project")
                .rebalance()
                .map(e -> Tuple2.of(campaign(e.f0), e.f1))
                .returns(Types.TUPLE(Types.INT, Types.LONG)).name("join")
                .assignTimestampsAndWatermarks(WatermarkStrategy
                        .<Tuple2<Integer, Long>>forBoundedOutOfOrderness(Duration.ofMillis(200))
                        .withTimestampAssigner((e, t) -> e.f1))
                .keyBy(e -> e.f0)
                .window(TumblingEventTimeWindows.of(Duration.ofSeconds(1)))
                .aggregate(new Count()).name("count")
                .rebalance()
                .sinkTo(new DiscardingSink<>()).name("store");
        env.execute("advertising");
    }

    private static String event(long n) {
        return "{\"ad\":\"ad-" + n * 7919 % (CAMPAIGNS * ADS_OF_A_CAMPAIGN) + "\",\"type\":\""
                + TYPES[(int) (n % TYPES.length)] + "\",\"time\":" + System.currentTimeMillis()
                + ",\"page\":\"page-" + n % 1000 + "\",\"ip\":\"10.0.0." + n % 250 + "\"}";
    }

    private static Tuple3<String, String, Long> parse(String event) {
        return Tuple3.of(field(event, "ad"), field(event, "type"),
                Long.parseLong(field(event, "time")));
    }

    private static String field(String event, String name) {
        int from = event.indexOf("\"" + name + "\":") + name.length() + 3;
        int to = event.indexOf(',', from);
        return event.substring(from, to < 0 ? event.length() - 1 : to).replace("\"", "");
    }

    private static int campaign(String ad) {
        return Integer.parseInt(ad.substring(3)) / ADS_OF_A_CAMPAIGN;
    }

    /** Counts the events of a window. */
    public static final class Count
            implements AggregateFunction<Tuple2<Integer, Long>, Long, Long> {
        private static final long serialVersionUID = 1;

        @Override
        public Long createAccumulator() {
            return 0L;
        }

        @Override
        public Long add(Tuple2<Integer, Long> event, Long count) {
            return count + 1;
        }

        @Override
        public Long getResult(Long count) {
            return count;
        }

        @Override
        public Long merge(Long a, Long b) {
            return a + b;
        }
    }
}
