package adstream;

import java.util.List;
import java.util.Map;
import org.apache.storm.Config;
import org.apache.storm.StormSubmitter;
import org.apache.storm.generated.ExecutorSummary;
import org.apache.storm.generated.KillOptions;
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

    /** Arguments: how many events, how many a second, and on how many workers. */
    public static void main(String[] args) throws Exception {
        long events = Long.parseLong(args[0]);
        int perSecond = Integer.parseInt(args[1]);
        int workers = Integer.parseInt(args[2]);
        TopologyBuilder b = new TopologyBuilder();
        b.setSpout("events", new Events(events / workers, perSecond / workers), workers);
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
        // Otherwise a tuple stays in its worker if it can.
        conf.put(Config.TOPOLOGY_DISABLE_LOADAWARE_MESSAGING, true);
        StormSubmitter.submitTopology(NAME, conf, b.createTopology());
        try (NimbusClient nimbus = NimbusClient.Builder.withConf(Utils.readStormConfig()).build()) {
            untilDone(nimbus);
            KillOptions now = new KillOptions();
            now.set_wait_secs(0);
            nimbus.getClient().killTopologyWithOpts(NAME, now);
            while (!nimbus.getClient().getClusterInfo().get_topologies().isEmpty()) {
                Thread.sleep(500);
            }
        }
    }

    /** Waits until no more tuples are acknowledged. Storm's counts change every few seconds. */
    private static void untilDone(NimbusClient nimbus) throws Exception {
        long last = 0;
        for (int unchanged = 0; last == 0 || unchanged < 15; unchanged++) {
            Thread.sleep(1000);
            long acked = acked(nimbus);
            if (acked != last) {
                unchanged = 0;
                last = acked;
            }
        }
        System.out.println("acknowledged, as Storm estimates: " + last);
    }

    private static long acked(NimbusClient nimbus) throws Exception {
        long acked = 0;
        for (TopologySummary t : nimbus.getClient().getClusterInfo().get_topologies()) {
            TopologyInfo info = nimbus.getClient().getTopologyInfo(t.get_id());
            for (ExecutorSummary e : info.get_executors()) {
                if (e.is_set_stats() && e.get_stats().get_specific().is_set_spout()) {
                    Map<String, Long> all =
                            e.get_stats().get_specific().get_spout().get_acked().get(":all-time");
                    for (long n : all == null ? List.<Long>of() : all.values()) {
                        acked += n;
                    }
                }
            }
        }
        return acked;
    }
}
