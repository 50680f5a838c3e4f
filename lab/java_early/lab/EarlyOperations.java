package lab;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListTopicsOptions;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Topics, consumers, and what the live broker says, as far as brokers before 2.1 have it. */
final class EarlyOperations {
    private final String bootstrap;
    private final Map<String, KafkaConsumer<byte[], byte[]>> consumers = new HashMap<>();
    private Admin admin;

    EarlyOperations(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void register(Map<String, Driver.Operation> operations) {
        operations.put("create_topic", this::createTopic);
        operations.put("delete_topic", request -> admin().deleteTopics(List.of(Requests.text(request, "name"))).all().get());
        operations.put("list_topics", request -> listTopics());
        operations.put("add_partitions", this::addPartitions);
        operations.put("delete_records", this::deleteRecords);
        operations.put("list_offset", this::listOffset);
        operations.put("list_groups", request -> listGroups());
        operations.put("group_offsets", this::groupOffsets);
        operations.put("consumer", this::openConsumer);
        operations.put("subscribe", this::subscribe);
        operations.put("poll", this::poll);
        operations.put("commit_offset", this::commit);
        operations.put("close_consumer", this::closeConsumer);
        for (String unknown : List.of("describe_producers", "list_transactions", "describe_transaction")) {
            operations.put(unknown, request -> {
                throw new UnsupportedVersionException(unknown);
            });
        }
    }

    private Admin admin() {
        if (admin == null) {
            Properties properties = new Properties();
            properties.put("bootstrap.servers", bootstrap);
            properties.put("default.api.timeout.ms", "30000");
            admin = Admin.create(properties);
        }
        return admin;
    }

    private Object createTopic(JsonNode request) throws Exception {
        NewTopic topic = new NewTopic(Requests.text(request, "name"), Requests.number(request, "partitions", 1),
            (short) Requests.number(request, "replicas", 1));
        return admin().createTopics(List.of(topic.configs(Requests.map(request, "configs")))).all().get();
    }

    private Object listTopics() throws Exception {
        Map<String, Object> topics = new TreeMap<>();
        Set<String> names = admin().listTopics(new ListTopicsOptions().listInternal(true)).names().get();
        admin().describeTopics(names).allTopicNames().get().forEach((name, description) -> {
            Map<String, Object> topic = new LinkedHashMap<>();
            topic.put("topic_id", null);
            topic.put("internal", description.isInternal());
            topic.put("partitions", description.partitions().stream().map(EarlyOperations::describe).toList());
            topics.put(name, topic);
        });
        return topics;
    }

    private static Map<String, Object> describe(TopicPartitionInfo info) {
        Map<String, Object> partition = new LinkedHashMap<>();
        partition.put("partition", info.partition());
        partition.put("leader", info.leader() == null ? -1 : info.leader().id());
        partition.put("replicas", info.replicas().stream().map(node -> node.id()).toList());
        partition.put("isr", info.isr().stream().map(node -> node.id()).toList());
        return partition;
    }

    private Object addPartitions(JsonNode request) throws Exception {
        return admin().createPartitions(
            Map.of(Requests.text(request, "name"), NewPartitions.increaseTo(request.get("partitions").asInt()))).all().get();
    }

    private Object deleteRecords(JsonNode request) throws Exception {
        RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before").asLong());
        return admin().deleteRecords(Map.of(Requests.partition(request), before)).all().get();
    }

    private Object listOffset(JsonNode request) throws Exception {
        TopicPartition partition = Requests.partition(request);
        OffsetSpec spec = "earliest".equals(Requests.text(request, "spec")) ? OffsetSpec.earliest() : OffsetSpec.latest();
        IsolationLevel level = "read_committed".equals(Requests.text(request, "isolation"))
            ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
        return admin().listOffsets(Map.of(partition, spec), new ListOffsetsOptions(level)).partitionResult(partition).get().offset();
    }

    private Object listGroups() throws Exception {
        Map<String, String> types = new TreeMap<>();
        admin().listConsumerGroups().all().get().forEach(group -> types.put(group.groupId(), "Classic"));
        return types;
    }

    private Object groupOffsets(JsonNode request) throws Exception {
        Map<String, Object> offsets = new TreeMap<>();
        admin().listConsumerGroupOffsets(Requests.text(request, "group")).partitionsToOffsetAndMetadata().get()
            .forEach((partition, offset) -> offsets.put(partition.toString(), offset == null ? null : Map.of("offset", offset.offset())));
        return offsets;
    }

    private Object openConsumer(JsonNode request) {
        Properties properties = new Properties();
        properties.put("auto.offset.reset", "earliest");
        properties.put("enable.auto.commit", "false");
        properties.putAll(Requests.properties(bootstrap, request));
        consumers.put(Requests.text(request, "name"),
            new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer()));
        return null;
    }

    private Object subscribe(JsonNode request) {
        consumers.get(Requests.text(request, "name")).subscribe(Requests.texts(request, "topics"));
        return null;
    }

    private Object poll(JsonNode request) {
        long deadline = System.nanoTime() + Requests.number(request, "milliseconds", 3000) * 1_000_000L;
        Map<String, Integer> seen = new TreeMap<>();
        while (System.nanoTime() < deadline) {
            for (String name : Requests.texts(request, "names")) {
                seen.merge(name, consumers.get(name).poll(Duration.ofMillis(100)).count(), Integer::sum);
            }
        }
        return seen;
    }

    private Object commit(JsonNode request) {
        consumers.get(Requests.text(request, "name")).commitSync();
        return null;
    }

    private Object closeConsumer(JsonNode request) {
        consumers.remove(Requests.text(request, "name")).close(Duration.ofSeconds(5));
        return null;
    }
}
