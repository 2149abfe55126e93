package adstream;

import java.util.HashMap;
import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/** Sends events on a schedule that does not wait. An event that was not processed is sent again. */
public final class Events extends BaseRichSpout {
    private static final long serialVersionUID = 1;

    private static final int ADS = 1000;
    private static final String[] TYPES = {"view", "click", "purchase"};

    private final long events;
    private final int perSecond;

    private transient SpoutOutputCollector out;
    private transient Map<Long, String> pending;
    private transient long begun_ns;
    private transient long next;

    public Events(long events, int perSecond) {
        this.events = events;
        this.perSecond = perSecond;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector out) {
        this.out = out;
        pending = new HashMap<>();
    }

    @Override
    public void activate() {
        begun_ns = begun_ns == 0 ? System.nanoTime() : begun_ns;
    }

    @Override
    public void nextTuple() {
        long due = (long) ((System.nanoTime() - begun_ns) / 1e9 * perSecond);
        if (next < Math.min(due, events)) {
            String event = event(next);
            pending.put(next, event);
            out.emit(new Values(event), next);
            next++;
        }
    }

    @Override
    public void ack(Object id) {
        pending.remove(id);
    }

    @Override
    public void fail(Object id) {
        String event = pending.get(id);
        if (event != null) {
            out.emit(new Values(event), id);
        }
    }

    private static String event(long n) {
        return "{\"ad\":\"ad-" + n * 7919 % ADS + "\",\"type\":\"" + TYPES[(int) (n % 3)]
                + "\",\"time\":" + System.currentTimeMillis() + ",\"page\":\"page-" + n % 1000
                + "\",\"ip\":\"10.0.0." + n % 250 + "\"}";
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("event"));
    }
}
