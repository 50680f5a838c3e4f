package lab;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.TreeMap;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.consumer.SubscriptionPattern;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Consumers and their groups, classic and consumer protocol. */
final class ConsumerOperations {
    private final String bootstrap;
    private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();

    ConsumerOperations(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void register(Map<String, Driver.Operation> operations) {
        operations.put("consumer", this::open);
        operations.put("subscribe", this::subscribe);
        operations.put("assign", this::assign);
        operations.put("poll", this::poll);
        operations.put("commit_offset", this::commit);
        operations.put("close_consumer", this::close);
    }

    static Properties consumerProperties(String bootstrap, JsonNode request) {
        Properties properties = new Properties();
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.putAll(Requests.properties(bootstrap, request));
        return properties;
    }

    private Object open(JsonNode request) {
        consumers.put(Requests.text(request, "name"), new KafkaConsumer<>(
            consumerProperties(bootstrap, request), new ByteArrayDeserializer(), new ByteArrayDeserializer()));
        return null;
    }

    private KafkaConsumer<byte[], byte[]> consumer(JsonNode request) {
        return consumers.get(Requests.text(request, "name"));
    }

    /** Topics by name, by a pattern of the client (java) or by a pattern of the broker (regex, KIP-848). */
    private Object subscribe(JsonNode request) {
        if (request.hasNonNull("regex")) {
            consumer(request).subscribe(new SubscriptionPattern(Requests.text(request, "regex")));
        } else if (request.hasNonNull("pattern")) {
            consumer(request).subscribe(Pattern.compile(Requests.text(request, "pattern")));
        } else {
            consumer(request).subscribe(Requests.texts(request, "topics"));
        }
        return null;
    }

    private Object assign(JsonNode request) {
        consumer(request).assign(List.of(Requests.partition(request)));
        return null;
    }

    /** Polls several consumers in turn, so that all members of a group take part in a rebalance. */
    private Object poll(JsonNode request) {
        Map<String, List<String>> seen = new TreeMap<>();
        long deadline = System.nanoTime() + Requests.number(request, "milliseconds", 3000) * 1_000_000L;
        while (System.nanoTime() < deadline) {
            for (String name : Requests.texts(request, "names")) {
                for (ConsumerRecord<byte[], byte[]> record : consumers.get(name).poll(Duration.ofMillis(100))) {
                    seen.computeIfAbsent(name, key -> new ArrayList<>())
                        .add(record.topic() + "-" + record.partition() + "@" + record.offset());
                }
            }
        }
        return seen;
    }

    private Object commit(JsonNode request) {
        if (request.hasNonNull("offset")) {
            OffsetAndMetadata offset = new OffsetAndMetadata(request.get("offset").asLong(),
                Optional.ofNullable(request.hasNonNull("leader_epoch") ? request.get("leader_epoch").asInt() : null),
                String.valueOf(Requests.text(request, "metadata")));
            Map<TopicPartition, OffsetAndMetadata> offsets = Map.of(Requests.partition(request), offset);
            consumer(request).commitSync(offsets);
        } else {
            consumer(request).commitSync();
        }
        return null;
    }

    private Object close(JsonNode request) {
        boolean leave = !"remain".equals(Requests.text(request, "membership"));
        CloseOptions.GroupMembershipOperation operation = leave
            ? CloseOptions.GroupMembershipOperation.LEAVE_GROUP : CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP;
        consumers.remove(Requests.text(request, "name")).close(
            CloseOptions.timeout(Duration.ofSeconds(5)).withGroupMembershipOperation(operation));
        return null;
    }
}
