package adstream;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStreamWriter;
import java.io.UncheckedIOException;
import java.io.Writer;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.storm.spout.SpoutOutputCollector;
import org.apache.storm.task.TopologyContext;
import org.apache.storm.topology.OutputFieldsDeclarer;
import org.apache.storm.topology.base.BaseRichSpout;
import org.apache.storm.tuple.Fields;
import org.apache.storm.tuple.Values;

/**
 * Emits events that come as lines over a socket, and returns the ids of those that were processed.
 * An event that was not processed is emitted again.
 */
public final class Events extends BaseRichSpout {
    private static final long serialVersionUID = 1;

    private static final String HOST = "127.0.0.1";

    /** An event as it comes. */
    public record Event(long id, String text) {}

    private final int port;
    private final int backPort;

    private transient SpoutOutputCollector out;
    private transient Map<Long, Event> pending;
    private transient BufferedReader in;
    private transient Writer back;
    private transient boolean returned;

    public Events(int port, int backPort) {
        this.port = port;
        this.backPort = backPort;
    }

    @Override
    public void open(Map<String, Object> conf, TopologyContext context, SpoutOutputCollector out) {
        this.out = out;
        pending = new HashMap<>();
        try {
            in = new BufferedReader(new InputStreamReader(
                    new Socket(HOST, port).getInputStream(), StandardCharsets.US_ASCII));
            back = new OutputStreamWriter(
                    new Socket(HOST, backPort).getOutputStream(), StandardCharsets.US_ASCII);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void nextTuple() {
        try {
            if (returned) {
                back.flush();
                returned = false;
            }
            String line = in.ready() ? in.readLine() : null;
            if (line != null) {
                Event event = read(line);
                pending.put(event.id, event);
                emit(event);
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    private static Event read(String line) {
        int from = line.indexOf(':') + 1;
        return new Event(Long.parseUnsignedLong(line, from, line.indexOf(','), 10), line);
    }

    private void emit(Event event) {
        out.emit(new Values(event.text), event.id);
    }

    @Override
    public void ack(Object id) {
        Event event = pending.remove(id);
        if (event != null) {
            done(event);
        }
    }

    private void done(Event event) {
        try {
            back.write(Long.toUnsignedString(event.id) + "\n");
            returned = true;
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Override
    public void fail(Object id) {
        Event event = pending.get(id);
        if (event != null) {
            emit(event);
        }
    }

    @Override
    public void declareOutputFields(OutputFieldsDeclarer declarer) {
        declarer.declare(new Fields("event"));
    }
}
