package adstream;

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import org.apache.flink.api.common.functions.AggregateFunction;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.java.tuple.Tuple2;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.WindowedStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.windowing.assigners.TumblingProcessingTimeWindows;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.windows.TimeWindow;

/**
 * The advertising benchmark: events of advertisements are parsed, the views among them are kept,
 * joined with their campaigns, and counted by campaign and window. The events are lines that come
 * over a socket.
 */
public final class Job {
    private static final int ADS_OF_A_CAMPAIGN = 10;
    private static final String HOST = "127.0.0.1";

    private Job() {}

    /** An event as it comes. */
    public record Line(long id, String text) {}

    /** An event that was parsed. */
    public record Event(long id, String ad, String type) {}

    /** A view of an advertisement. */
    public record View(long id, String ad) {}

    /** A view of an advertisement of a campaign. */
    public record CampaignView(long id, int campaign) {}

    /**
     * Arguments: the port from which events come, a port for the ids of counted events, and the
     * number of TaskManagers. If the port for ids is 0, the job does not return ids: it only counts
     * the events of each window.
     */
    public static void main(String[] args) throws Exception {
        int port = Integer.parseInt(args[0]);
        int backPort = Integer.parseInt(args[1]);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(Integer.parseInt(args[2]));
        env.setBufferTimeout(5);

        WindowedStream<CampaignView, Integer, TimeWindow> windows = env
                .socketTextStream(HOST, port, "\n", 0).name("events")
                .map(Job::read).returns(Line.class).setParallelism(1).name("read")
                .rebalance()
                .map(Job::deserialise).returns(Event.class).name("deserialise")
                .rebalance()
                .filter(Job::isView).name("filter")
                .map(Job::project).returns(View.class).name("project")
                .rebalance()
                .map(Job::join).returns(CampaignView.class).name("join")
                .keyBy(CampaignView::campaign)
                .window(TumblingProcessingTimeWindows.of(Duration.ofSeconds(1)));
        if (backPort == 0) {
            count(windows).rebalance().sinkTo(new DiscardingSink<>()).name("store");
        } else {
            count(windows.trigger(CountTrigger.of(1))).rebalance()
                    .writeToSocket(HOST, backPort,
                            c -> (Long.toUnsignedString(c.f0) + "\n")
                                    .getBytes(StandardCharsets.US_ASCII))
                    .name("store");
        }
        env.execute("advertising");
    }

    private static DataStream<Tuple2<Long, Long>> count(
            WindowedStream<CampaignView, Integer, TimeWindow> windows) {
        return windows.aggregate(new Count())
                .returns(new TypeHint<Tuple2<Long, Long>>() {}).name("count");
    }

    static Line read(String line) {
        return new Line(Long.parseUnsignedLong(field(line, "id")), line);
    }

    static Event deserialise(Line line) {
        return new Event(line.id, field(line.text, "ad"), field(line.text, "type"));
    }

    static boolean isView(Event event) {
        return event.type.equals("view");
    }

    static View project(Event event) {
        return new View(event.id, event.ad);
    }

    static CampaignView join(View view) {
        return new CampaignView(
                view.id, Integer.parseInt(view.ad.substring(3)) / ADS_OF_A_CAMPAIGN);
    }

    private static String field(String event, String name) {
        int from = event.indexOf("\"" + name + "\":") + name.length() + 3;
        int to = event.indexOf(',', from);
        return event.substring(from, to < 0 ? event.length() - 1 : to).replace("\"", "");
    }

    /** Counts the events of a window, and remembers the id of the last one. */
    public static final class Count implements
            AggregateFunction<CampaignView, Tuple2<Long, Long>, Tuple2<Long, Long>> {
        private static final long serialVersionUID = 1;

        @Override
        public Tuple2<Long, Long> createAccumulator() {
            return Tuple2.of(0L, 0L);
        }

        @Override
        public Tuple2<Long, Long> add(CampaignView view, Tuple2<Long, Long> count) {
            return Tuple2.of(view.id, count.f1 + 1);
        }

        @Override
        public Tuple2<Long, Long> getResult(Tuple2<Long, Long> count) {
            return count;
        }

        @Override
        public Tuple2<Long, Long> merge(Tuple2<Long, Long> a, Tuple2<Long, Long> b) {
            return Tuple2.of(Math.max(a.f0, b.f0), a.f1 + b.f1);
        }
    }
}
