package adstream;

import java.util.HashMap;
import java.util.Map;
import org.apache.storm.topology.BasicOutputCollector;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseBasicBolt;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Tuple;
import org.apache.storm.tuple.Values;

/** The operators of the advertising benchmark. */
final class Bolts {
    private static final int ADS_OF_A_CAMPAIGN = 10;

    private Bolts() {}

    /** A bolt that declares what it emits. */
    private abstract static class Emitting extends BaseBasicBolt {
        private static final long serialVersionUID = 1;

        private final String[] fields;

        Emitting(String... fields) {
            this.fields = fields;
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            declarer.declare(new Fields(fields));
        }
    }

    /** Parses an event. */
    static final class Deserialise extends Emitting {
        private static final long serialVersionUID = 1;

        Deserialise() {
            super("ad", "type");
        }

        @Override
        public void execute(Tuple tuple, BasicOutputCollector out) {
            String event = tuple.getString(0);
            out.emit(new Values(field(event, "ad"), field(event, "type")));
        }

        private static String field(String event, String name) {
            int from = event.indexOf("\"" + name + "\":") + name.length() + 3;
            int to = event.indexOf(',', from);
            return event.substring(from, to < 0 ? event.length() - 1 : to).replace("\"", "");
        }
    }

    /** Keeps the views. */
    static final class Filter extends Emitting {
        private static final long serialVersionUID = 1;

        Filter() {
            super("ad", "type");
        }

        @Override
        public void execute(Tuple tuple, BasicOutputCollector out) {
            if (tuple.getString(1).equals("view")) {
                out.emit(tuple.getValues());
            }
        }
    }

    /** Keeps what the count needs. */
    static final class Project extends Emitting {
        private static final long serialVersionUID = 1;

        Project() {
            super("ad");
        }

        @Override
        public void execute(Tuple tuple, BasicOutputCollector out) {
            out.emit(new Values(tuple.getString(0)));
        }
    }

    /** Finds the campaign of an advertisement. */
    static final class Join extends Emitting {
        private static final long serialVersionUID = 1;

        Join() {
            super("campaign");
        }

        @Override
        public void execute(Tuple tuple, BasicOutputCollector out) {
            int ad = Integer.parseInt(tuple.getString(0).substring(3));
            out.emit(new Values(ad / ADS_OF_A_CAMPAIGN));
        }
    }

    /** Counts by campaign and window. */
    static final class Count extends BaseBasicBolt {
        private static final long serialVersionUID = 1;

        private static final long WINDOW_MS = 10_000;

        private transient Map<Integer, long[]> counts; // the present window, and its count

        @Override
        public void execute(Tuple tuple, BasicOutputCollector out) {
            if (counts == null) {
                counts = new HashMap<>();
            }
            long[] c = counts.computeIfAbsent(tuple.getInteger(0), k -> new long[2]);
            long window = System.currentTimeMillis() / WINDOW_MS;
            if (c[0] != window) {
                c[0] = window;
                c[1] = 0;
            }
            c[1]++;
        }

        @Override
        public void declareOutputFields(OutputFieldsDeclarer declarer) {
            // This is the last operator: it emits nothing.
        }
    }
}
