package lab;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/** Kafka Streams with the streams rebalance protocol (KIP-1071), its state in memory. */
final class StreamsOperations {
    private final String bootstrap;
    private final Map<String, KafkaStreams> running = new HashMap<>();

    StreamsOperations(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void register(Map<String, Driver.Operation> operations) {
        operations.put("streams", this::open);
        operations.put("wait_for_streams", this::waitUntilRunning);
        operations.put("close_streams", this::close);
        operations.put("pause", request -> pause(Requests.number(request, "milliseconds", 1000)));
    }

    /** Counts by the value's first word: a repartition topic, a changelog topic, two subtopologies. */
    private Object open(JsonNode request) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(Requests.text(request, "input"))
            .groupBy((key, value) -> value.split(" ")[0])
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("words"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().mapValues(String::valueOf).to(Requests.text(request, "output"));
        Properties properties = Requests.properties(bootstrap, request);
        properties.put("application.id", Requests.text(request, "application"));
        properties.put("client.id", Requests.text(request, "name"));
        properties.put("group.protocol", "streams");
        properties.put("num.stream.threads", "1");
        properties.put("commit.interval.ms", "500");
        properties.put("consumer.auto.offset.reset", "earliest");
        properties.put("default.key.serde", Serdes.StringSerde.class);
        properties.put("default.value.serde", Serdes.StringSerde.class);
        properties.put("state.dir", System.getProperty("java.io.tmpdir") + "/kforensics-lab-" + ProcessHandle.current().pid()
            + "-" + Requests.text(request, "name"));
        KafkaStreams streams = new KafkaStreams(builder.build(), properties);
        streams.start();
        running.put(Requests.text(request, "name"), streams);
        return null;
    }

    private Object waitUntilRunning(JsonNode request) throws Exception {
        KafkaStreams streams = running.get(Requests.text(request, "name"));
        long deadline = System.nanoTime() + 30_000_000_000L;
        while (streams.state() != KafkaStreams.State.RUNNING && System.nanoTime() < deadline) {
            pause(100);
        }
        return streams.state().toString();
    }

    private Object close(JsonNode request) {
        return running.remove(Requests.text(request, "name")).close(Duration.ofSeconds(10));
    }

    private static Object pause(int milliseconds) throws InterruptedException {
        Thread.sleep(milliseconds);
        return null;
    }
}
