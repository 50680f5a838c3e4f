package lab;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Share consumers, with every kind of acknowledgement. */
final class ShareOperations {
    private final String bootstrap;
    private final Map<String, KafkaShareConsumer<byte[], byte[]>> consumers = new HashMap<>();

    ShareOperations(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void register(Map<String, Driver.Operation> operations) {
        operations.put("share_consumer", this::open);
        operations.put("share_poll", this::poll);
        operations.put("close_share_consumer", this::close);
    }

    private Object open(JsonNode request) {
        Properties properties = new Properties();
        properties.put("share.acknowledgement.mode", "explicit");
        properties.putAll(Requests.properties(bootstrap, request));
        KafkaShareConsumer<byte[], byte[]> consumer =
            new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        consumer.subscribe(Requests.texts(request, "topics"));
        consumers.put(Requests.text(request, "name"), consumer);
        return null;
    }

    /** Takes records for a while and acknowledges them in turn with the given types, then commits. */
    private Object poll(JsonNode request) {
        KafkaShareConsumer<byte[], byte[]> consumer = consumers.get(Requests.text(request, "name"));
        List<String> types = Requests.texts(request, "acknowledge");
        List<String> seen = new ArrayList<>();
        int wanted = Requests.number(request, "records", 1);
        long deadline = System.nanoTime() + Requests.number(request, "milliseconds", 8000) * 1_000_000L;
        while (seen.size() < wanted && System.nanoTime() < deadline) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                AcknowledgeType type = AcknowledgeType.valueOf(types.get(seen.size() % types.size()));
                consumer.acknowledge(record, type);
                seen.add(record.topic() + "-" + record.partition() + "@" + record.offset() + " " + type);
            }
            consumer.commitSync();
        }
        return seen;
    }

    private Object close(JsonNode request) {
        consumers.remove(Requests.text(request, "name")).close(Duration.ofSeconds(5));
        return null;
    }
}
