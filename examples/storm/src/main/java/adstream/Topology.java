package adstream;

import java.util.Map;
import java.util.TreeMap;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.BoltStats;
import org.apache.storm.generated.ExecutorSummary;
import org.apache.storm.generated.KillOptions;
import org.apache.storm.generated.SpoutStats;
import org.apache.storm.generated.TopologyInfo;
import org.apache.storm.generated.TopologySummary;
import org.apache.storm.topology.TopologyBuilder;
import org.apache.storm.tuple.Fields;
import org.apache.storm.utils.NimbusClient;
import org.apache.storm.utils.Utils;

/**
 * The advertising benchmark: events of advertisements are parsed, the views among them are kept,
 * joined with their campaigns, and counted by campaign. Each tuple is anchored and acknowledged.
 */
public final class Topology {
    private static final String NAME = "advertising";

    private Topology() {}

    /**
     * Arguments: the port from which events come, the port for the ids of processed events, and the
     * number of workers. Without arguments, the program prints what Storm says of the topology, and
     * ends the topology.
     */
    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            end();
            return;
        }
        int workers = Integer.parseInt(args[2]);
        TopologyBuilder b = new TopologyBuilder();
        b.setSpout("events", new Events(Integer.parseInt(args[0]), Integer.parseInt(args[1])),
                workers);
        b.setBolt("deserialise", new Bolts.Deserialise(), workers).shuffleGrouping("events");
        b.setBolt("filter", new Bolts.Filter(), workers).shuffleGrouping("deserialise");
        b.setBolt("project", new Bolts.Project(), workers).shuffleGrouping("filter");
        b.setBolt("join", new Bolts.Join(), workers).shuffleGrouping("project");
        b.setBolt("count", new Bolts.Count(), workers)
                .fieldsGrouping("join", new Fields("campaign"));
        Config conf = new Config();
        conf.setNumWorkers(workers);
        conf.setNumAckers(workers);
        conf.setMessageTimeoutSecs(10);
        conf.setMaxSpoutPending(5000);
        // With load-aware messaging, Storm sends tuples within a worker if it can. The
        // demonstration needs transfers between workers.
        conf.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true);
        StormSubmitter.submitTopology(NAME, conf, b.createTopology());
    }

    private static void end() throws Exception {
        try (NimbusClient nimbus = NimbusClient.Builder.withConf(Utils.readStormConfig()).build()) {
            for (TopologySummary t : nimbus.getClient().getClusterInfo().get_topologies()) {
                print(nimbus.getClient().getTopologyInfo(t.get_id()));
            }
            KillOptions now = new KillOptions();
            now.set_wait_secs(0);
            nimbus.getClient().killTopologyWithOpts(NAME, now);
            while (!nimbus.getClient().getClusterInfo().get_topologies().isEmpty()) {
                Thread.sleep(500);
            }
        }
    }

    /** Sums by component: weighted milliseconds, and events. */
    private static final class Sums {
        private final Map<String, double[]> sums = new TreeMap<>();

        void add(String what, Map<?, Double> mean_ms, Map<?, Long> events) {
            double[] s = sums.computeIfAbsent(what, w -> new double[2]);
            if (mean_ms != null && events != null) {
                mean_ms.forEach((stream, ms) -> {
                    long n = events.getOrDefault(stream, 0L);
                    s[0] += ms * n;
                    s[1] += n;
                });
            }
        }
    }

    /** Prints lines such as "said: execute join 0.021 1000": mean milliseconds, and events. */
    private static void print(TopologyInfo info) {
        Sums sums = new Sums();
        String all = ":all-time";
        for (ExecutorSummary e : info.get_executors()) {
            if (!e.is_set_stats() || e.get_component_id().startsWith("__")) {
                continue;
            }
            if (e.get_stats().get_specific().is_set_spout()) {
                SpoutStats s = e.get_stats().get_specific().get_spout();
                sums.add("complete " + e.get_component_id(),
                        s.get_complete_ms_avg().get(all), s.get_acked().get(all));
            } else {
                BoltStats s = e.get_stats().get_specific().get_bolt();
                sums.add("execute " + e.get_component_id(),
                        s.get_execute_ms_avg().get(all), s.get_executed().get(all));
                sums.add("process " + e.get_component_id(),
                        s.get_process_ms_avg().get(all), s.get_acked().get(all));
            }
        }
        sums.sums.forEach((what, s) ->
                System.out.println("said: " + what + " " + s[0] / s[1] + " " + (long) s[1]));
    }
}
