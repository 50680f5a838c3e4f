package lab;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ClassicGroupDescription;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.GroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListShareGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.MemberDescription;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.ShareGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.TransactionDescription;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** What the live broker says about its partitions, producers, transactions and groups. */
final class TruthOperations {
    private final String bootstrap;
    private Admin admin;

    TruthOperations(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void register(Map<String, Driver.Operation> operations) {
        operations.put("list_offset", this::listOffset);
        operations.put("describe_producers", this::describeProducers);
        operations.put("list_transactions", request -> listTransactions());
        operations.put("describe_transaction", this::describeTransaction);
        operations.put("list_groups", request -> listGroups());
        operations.put("group_offsets", this::groupOffsets);
        operations.put("describe_group", this::describeGroup);
        operations.put("is_stable", this::isStable);
        operations.put("read", this::read);
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

    private Object listOffset(JsonNode request) throws Exception {
        TopicPartition partition = Requests.partition(request);
        OffsetSpec spec = switch (Requests.text(request, "spec")) {
            case "earliest" -> OffsetSpec.earliest();
            case "earliest-local" -> OffsetSpec.earliestLocal();
            default -> OffsetSpec.latest();
        };
        return admin().listOffsets(Map.of(partition, spec), new ListOffsetsOptions(isolation(request)))
            .partitionResult(partition).get().offset();
    }

    private static IsolationLevel isolation(JsonNode request) {
        boolean committed = "read_committed".equals(Requests.text(request, "isolation"));
        return committed ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
    }

    private Object describeProducers(JsonNode request) throws Exception {
        TopicPartition partition = Requests.partition(request);
        List<Object> producers = new ArrayList<>();
        for (ProducerState state : admin().describeProducers(List.of(partition)).partitionResult(partition).get().activeProducers()) {
            Map<String, Object> producer = new LinkedHashMap<>();
            producer.put("producer_id", state.producerId());
            producer.put("producer_epoch", state.producerEpoch());
            producer.put("last_sequence", state.lastSequence());
            producer.put("last_timestamp", state.lastTimestamp());
            producer.put("coordinator_epoch", orMinusOne(state.coordinatorEpoch()));
            producer.put("current_transaction_start_offset", orMinusOne(state.currentTransactionStartOffset()));
            producers.add(producer);
        }
        return producers;
    }

    private static int orMinusOne(OptionalInt number) {
        return number.orElse(-1);
    }

    private static long orMinusOne(OptionalLong number) {
        return number.orElse(-1L);
    }

    private Object listTransactions() throws Exception {
        Map<String, String> states = new TreeMap<>();
        admin().listTransactions().all().get().forEach(each -> states.put(each.transactionalId(), each.state().toString()));
        return states;
    }

    private Object describeTransaction(JsonNode request) throws Exception {
        String id = Requests.text(request, "id");
        TransactionDescription transaction = admin().describeTransactions(List.of(id)).description(id).get();
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("coordinator_id", transaction.coordinatorId());
        described.put("state", transaction.state().toString());
        described.put("producer_id", transaction.producerId());
        described.put("producer_epoch", transaction.producerEpoch());
        described.put("transaction_timeout_ms", transaction.transactionTimeoutMs());
        OptionalLong started = transaction.transactionStartTimeMs();
        described.put("transaction_start_time_ms", started.isPresent() ? started.getAsLong() : null);
        described.put("topic_partitions", transaction.topicPartitions().stream().map(TopicPartition::toString).sorted().toList());
        return described;
    }

    private Object listGroups() throws Exception {
        Map<String, String> types = new TreeMap<>();
        admin().listGroups().all().get().forEach(group ->
            types.put(group.groupId(), group.type().map(Object::toString).orElse("Unknown")));
        return types;
    }

    /** State, type, assignor and members of a group of any type but share. */
    private Object describeGroup(JsonNode request) throws Exception {
        String group = Requests.text(request, "group");
        GroupListing listed = admin().listGroups().all().get().stream()
            .filter(each -> each.groupId().equals(group)).findFirst().orElseThrow();
        if (listed.type().filter(GroupType.STREAMS::equals).isPresent()) {
            return describeStreamsGroup(group);
        }
        if (listed.type().filter(GroupType.SHARE::equals).isPresent()) {
            return describeShareGroup(group);
        }
        // Groups of Kafka Connect are classic groups of another protocol, which are no consumer groups.
        return List.of("", "consumer").contains(listed.protocol()) ? describeConsumerGroup(group) : describeClassicGroup(group);
    }

    private Object describeConsumerGroup(String group) throws Exception {
        ConsumerGroupDescription description = admin().describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
        return described(description.groupState(), description.type().toString(), description.partitionAssignor(), description.members());
    }

    private Object describeClassicGroup(String group) throws Exception {
        ClassicGroupDescription description = admin().describeClassicGroups(List.of(group)).describedGroups().get(group).get();
        Map<String, Object> described = described(
            description.state(), GroupType.CLASSIC.toString(), description.protocolData(), description.members());
        described.put("protocol", description.protocol());
        return described;
    }

    private Object describeStreamsGroup(String group) throws Exception {
        StreamsGroupDescription description = admin().describeStreamsGroups(List.of(group)).describedGroups().get(group).get();
        Map<String, Object> described = described(description.groupState(), GroupType.STREAMS.toString(), null, List.of());
        Map<String, Object> members = new TreeMap<>();
        description.members().forEach(member -> members.put(member.memberId(), Map.of("client_id", member.clientId())));
        described.put("members", members);
        return described;
    }

    private Object describeShareGroup(String group) throws Exception {
        ShareGroupDescription description = admin().describeShareGroups(List.of(group)).describedGroups().get(group).get();
        Map<String, Object> described = described(description.groupState(), GroupType.SHARE.toString(), null, List.of());
        Map<String, Object> members = new TreeMap<>();
        description.members().forEach(member -> members.put(member.consumerId(), Map.of("client_id", member.clientId())));
        described.put("members", members);
        Map<String, Object> offsets = new TreeMap<>();
        admin().listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec())).partitionsToOffsetInfo(group).get()
            .forEach((partition, info) -> offsets.put(partition.toString(), info == null ? null : info.startOffset()));
        described.put("start_offsets", offsets);
        return described;
    }

    private static Map<String, Object> described(
            Object state, String type, String assignor, Collection<MemberDescription> descriptions) {
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("state", state.toString());
        described.put("type", type);
        described.put("assignor", assignor);
        Map<String, Object> members = new TreeMap<>();
        descriptions.forEach(member -> members.put(member.consumerId(), Map.of(
            "client_id", member.clientId(),
            "partitions", member.assignment().topicPartitions().stream().map(TopicPartition::toString).sorted().toList())));
        described.put("members", members);
        return described;
    }

    private Object groupOffsets(JsonNode request) throws Exception {
        String group = Requests.text(request, "group");
        Map<String, Object> offsets = new TreeMap<>();
        Map<TopicPartition, OffsetAndMetadata> committed =
            admin().listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata(group).get();
        committed.forEach((partition, offset) -> offsets.put(partition.toString(), offset == null ? null : describe(offset)));
        return offsets;
    }

    /** Whether consumers are told the offset to go on from: they are not while a transaction holds another one. */
    private Object isStable(JsonNode request) throws Exception {
        String group = Requests.text(request, "group");
        TopicPartition partition = Requests.partition(request);
        ListConsumerGroupOffsetsSpec wanted = new ListConsumerGroupOffsetsSpec().topicPartitions(List.of(partition));
        ListConsumerGroupOffsetsOptions options = new ListConsumerGroupOffsetsOptions().requireStable(true);
        // The client leaves out what the broker calls unstable.
        return admin().listConsumerGroupOffsets(Map.of(group, wanted), options).partitionsToOffsetAndMetadata(group).get()
            .containsKey(partition);
    }

    private static Map<String, Object> describe(OffsetAndMetadata offset) {
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("offset", offset.offset());
        described.put("leader_epoch", offset.leaderEpoch().orElse(null));
        described.put("metadata", offset.metadata());
        return described;
    }

    /** Reads a partition from its start to the end its isolation level lets it see. */
    private Object read(JsonNode request) {
        TopicPartition partition = Requests.partition(request);
        List<Object> records = new ArrayList<>();
        try (KafkaConsumer<byte[], byte[]> consumer = reader(request)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            long deadline = System.nanoTime() + 20_000_000_000L;
            while (consumer.position(partition) < end && System.nanoTime() < deadline) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> records.add(describe(record)));
            }
            if (consumer.position(partition) < end) {
                throw new IllegalStateException("the reader of " + partition + " did not reach " + end);
            }
        }
        return records;
    }

    private KafkaConsumer<byte[], byte[]> reader(JsonNode request) {
        Properties properties = ConsumerOperations.consumerProperties(bootstrap, request);
        properties.put("isolation.level", Requests.text(request, "isolation"));
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static Map<String, Object> describe(ConsumerRecord<byte[], byte[]> record) {
        Map<String, Object> described = new LinkedHashMap<>();
        described.put("offset", record.offset());
        described.put("timestamp", record.timestamp());
        described.put("timestamp_type", record.timestampType().toString());
        described.put("key", Requests.hex(record.key()));
        described.put("value", Requests.hex(record.value()));
        List<Object> headers = new ArrayList<>();
        for (Header header : record.headers()) {
            List<String> pair = new ArrayList<>();
            pair.add(header.key());
            pair.add(Requests.hex(header.value()));
            headers.add(pair);
        }
        described.put("headers", headers);
        return described;
    }
}
