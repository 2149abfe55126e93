package io.github.cloudprofiler.agent.advice;

import io.github.cloudprofiler.Channel;
import io.github.cloudprofiler.agent.Say;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * A record of Kafka has a place: topic, partition and offset. The consumer knows the place. The
 * producer learns the place only when a broker acknowledges the record. So the advice notes when
 * the program asked the producer to send the record, and logs this moment when the acknowledgement
 * comes. A record that is not acknowledged is not logged.
 */
public final class KafkaAdvice {
    private KafkaAdvice() {}

    /** For each partition, the id of the record with the offset 0. The ids of all other records
     * follow from it. */
    private static final class Places {
        private final Map<Object, Long> known = new HashMap<>();

        long first(Object topicPartition) throws ReflectiveOperationException {
            Long first = known.get(topicPartition);
            if (first == null) {
                first = KafkaAdvice.first((String) Reach.call(topicPartition, "topic"),
                        (int) Reach.call(topicPartition, "partition"));
                known.put(topicPartition, first);
            }
            return first;
        }
    }

    /** Returns the id of the partition's record with the offset 0. The text that is hashed is
     * different for each partition, because a topic's name has no slash. */
    static long first(String topic, int partition) {
        return Ordinals.first("kafka/" + topic + "/" + partition);
    }

    /** What a thread is about to give to a producer, or to move to smaller batches. */
    static final class Sending {
        private static final ThreadLocal<Sending> OF_THREAD =
                ThreadLocal.withInitial(Sending::new);

        Origin next; // the origin of the record that Streams is about to send
        Object record; // that record

        private long stamp;
        private Origin origin; // the origin of the record that the producer is working on
        private Batch split;
        private int moved; // how many records of split have moved to smaller batches

        static Sending ofThread() {
            return OF_THREAD.get();
        }
    }

    /** The actor that sends a record, and the record's parent: the record from which it was made.
     * */
    record Origin(String actor, boolean linked, long parent, boolean logged) {}

    /** The program asks a producer to send a record. */
    public static void sending(Object record) {
        Sending s = Sending.ofThread();
        s.stamp = Channel.counter();
        s.origin = s.record == record ? s.next : null;
        s.record = null;
        s.next = null;
    }

    /** The records of a batch. The producer's own locks guard it. */
    private static final class Batch {
        final String actor; // the sender of records without an origin: of the program's own
        final long first;
        long[] stamps = new long[16];
        Origin[] origins; // null if all records are the program's own
        int size;
        boolean acknowledged;

        Batch(String actor, long first) {
            this.actor = actor;
            this.first = first;
        }

        void add(long stamp, Origin origin) {
            if (size == stamps.length) {
                stamps = Arrays.copyOf(stamps, 2 * size);
            }
            if (origin != null && origins == null) {
                origins = new Origin[stamps.length];
            }
            if (origins != null) {
                origins = origins.length < stamps.length
                        ? Arrays.copyOf(origins, stamps.length) : origins;
                origins[size] = origin;
            }
            stamps[size++] = stamp;
        }

        Origin origin(int i) {
            return origins == null ? null : origins[i];
        }
    }

    /** Makes the state of a batch. */
    public static Object batch(String topic, int partition) {
        return new Batch(topic, first(topic, partition));
    }

    /** A batch took a record, or had no room for it. */
    public static void appended(Object batch, Object future) {
        if (future != null) {
            Sending s = Sending.ofThread();
            ((Batch) batch).add(s.stamp, s.origin);
        }
    }

    /** A batch that is too large for the broker is about to be split. */
    public static void splitting(Object batch) {
        Sending s = Sending.ofThread();
        s.split = (Batch) batch;
        s.moved = 0;
    }

    /**
     * A batch is being split. If done is true, a smaller batch has taken the next record of the
     * batch. If not, the smaller batch had no room for that record.
     */
    public static void moved(Object batch, boolean done) {
        Sending s = Sending.ofThread();
        if (done) {
            ((Batch) batch).add(s.split.stamps[s.moved], s.split.origin(s.moved));
            s.moved++;
        }
    }

    /** The channels of a sender. */
    private static final class Actor {
        private final String name;
        private Channel send;
        private Channel unlinked;
        private Channel links;

        Actor(String name) {
            this.name = name;
        }

        Channel send() {
            return send == null ? send = Points.open(name + "/send", false) : send;
        }

        Channel unlinked() {
            return unlinked == null ? unlinked = Points.open(name + "/unlinked", false) : unlinked;
        }

        Channel links() {
            return links == null ? links = Points.openLinks(name + "/links") : links;
        }
    }

    /** The state of a thread that receives acknowledgements. Each producer has such a thread. */
    private static final class Sent {
        private static final ThreadLocal<Sent> OF_THREAD = ThreadLocal.withInitial(Sent::new);

        private final boolean linked = Points.keepsAll();
        private final Map<String, Actor> actors = new HashMap<>();

        void log(Batch b, int i, long id) {
            Origin o = b.origin(i);
            if (o != null && !o.logged) {
                return;
            }
            Actor actor = actor(o == null ? b.actor : o.actor);
            Channel c = o == null || o.linked ? actor.send() : actor.unlinked();
            if (!c.keeps(id)) {
                return;
            }
            c.logAt(b.stamps[i], id);
            if (o != null && o.linked && linked) {
                actor.links().link(o.parent, id);
            }
        }

        private String lastActor;
        private Actor last;

        private Actor actor(String name) {
            if (!name.equals(lastActor)) {
                last = actors.computeIfAbsent(name, Actor::new);
                lastActor = name;
            }
            return last;
        }
    }

    /**
     * A broker has acknowledged a batch. The records are in the topic, even if the producer has
     * given up the batch because the acknowledgement took too long.
     */
    public static void acknowledged(Object batch, long baseOffset, int records) {
        Batch b = (Batch) batch;
        if (b == null || b.acknowledged) {
            return;
        }
        b.acknowledged = true;
        if (baseOffset < 0) {
            Say.once("kafka: the broker did not say at which offset it put records, as with "
                    + "acks=0; they have no ids");
            return;
        }
        if (records != b.size) {
            Say.once("kafka: a batch of " + b.actor + " has " + records + " records, of which "
                    + b.size + " were counted; they are not logged");
            return;
        }
        Sent sent = Sent.OF_THREAD.get();
        for (int i = 0; i < records; i++) {
            sent.log(b, i, b.first + baseOffset + i);
        }
    }

    /** The state of a consumer. One thread at a time uses it. */
    private static final class Consumer {
        final Channel recv; // null: what it reads is not logged
        final Places places = new Places();

        Consumer(Channel recv) {
            this.recv = recv;
        }
    }

    // Streams reads the changelogs of its state stores by consumers whose names end in this.
    private static final String RESTORES = "-restore-consumer";

    /** Makes the state of a consumer. */
    public static Object consumer(Object consumer) throws ReflectiveOperationException {
        String client = (String) Reach.call(consumer, "clientId");
        if (client.endsWith(RESTORES)) {
            return new Consumer(null);
        }
        String name;
        try {
            name = (String) Reach.call(Reach.call(consumer, "groupMetadata"), "groupId");
        } catch (ReflectiveOperationException e) { // it is in no group
            name = client;
        }
        return new Consumer(Points.open(Points.actor(name) + "/recv", false));
    }

    /** A consumer returns records to the program. */
    public static void polled(Object consumer, Object records) throws Throwable {
        Consumer c = (Consumer) consumer;
        if (c.recv == null || records == null) {
            return;
        }
        for (Object partition : (Set<?>) Reach.get(records, "partitions")) {
            long first = c.places.first(partition);
            List<?> all = (List<?>) Reach.get(records, "records", partition);
            for (Object record : all) {
                long id = first + Reach.number(record, "offset");
                if (c.recv.keeps(id)) {
                    c.recv.log(id);
                }
            }
        }
    }
}
