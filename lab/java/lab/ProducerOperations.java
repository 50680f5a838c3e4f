package lab;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** Producers, transactional and not. Batches are cut by flush alone: the linger is longer than any scenario waits. */
final class ProducerOperations {
    private final String bootstrap;
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();

    ProducerOperations(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void register(Map<String, Driver.Operation> operations) {
        operations.put("producer", this::open);
        operations.put("close_producer", this::close);
        operations.put("init_transactions", request -> act(request, KafkaProducer::initTransactions));
        operations.put("begin", request -> act(request, KafkaProducer::beginTransaction));
        operations.put("commit", request -> act(request, KafkaProducer::commitTransaction));
        operations.put("abort", request -> act(request, KafkaProducer::abortTransaction));
        operations.put("send", request -> send(request).stream().map(RecordMetadata::offset).toList());
        operations.put("send_placed", request -> send(request).stream().map(ProducerOperations::placed).toList());
        operations.put("send_offsets", this::sendOffsets);
    }

    private interface Step {
        void run(KafkaProducer<byte[], byte[]> producer) throws Exception;
    }

    private Object open(JsonNode request) {
        Properties properties = new Properties();
        properties.put("linger.ms", "60000");
        properties.put("max.block.ms", "30000");
        properties.putAll(Requests.properties(bootstrap, request));
        producers.put(Requests.text(request, "name"),
            new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer()));
        return null;
    }

    /** With no timeout given the producer is dropped at once, as by a crash: its transaction stays open. */
    private Object close(JsonNode request) {
        int seconds = Requests.number(request, "seconds", 0);
        producers.remove(Requests.text(request, "name")).close(Duration.ofSeconds(seconds));
        return null;
    }

    private Object act(JsonNode request, Step step) throws Exception {
        step.run(producer(request));
        return null;
    }

    private KafkaProducer<byte[], byte[]> producer(JsonNode request) {
        return producers.get(Requests.text(request, "name"));
    }

    private List<RecordMetadata> send(JsonNode request) throws Exception {
        List<Future<RecordMetadata>> sent = new ArrayList<>();
        for (JsonNode record : request.get("records")) {
            sent.add(producer(request).send(record(request, record)));
        }
        producer(request).flush();
        List<RecordMetadata> written = new ArrayList<>();
        for (Future<RecordMetadata> future : sent) {
            written.add(future.get());
        }
        return written;
    }

    /** Where the client's partitioner put a record, and when. */
    private static List<Long> placed(RecordMetadata written) {
        return List.of((long) written.partition(), written.offset(), written.timestamp());
    }

    private static ProducerRecord<byte[], byte[]> record(JsonNode request, JsonNode record) {
        RecordHeaders headers = new RecordHeaders();
        for (JsonNode header : record.path("headers")) {
            headers.add(header.get(0).asText(), Requests.bytes(header.get(1)));
        }
        Integer partition = request.hasNonNull("partition") ? Integer.valueOf(request.get("partition").asInt()) : null;
        Long timestamp = record.hasNonNull("timestamp") ? Long.valueOf(record.get("timestamp").asLong()) : null;
        return new ProducerRecord<>(Requests.text(request, "topic"), partition, timestamp,
            Requests.bytes(record.get("key")), Requests.bytes(record.get("value")), headers);
    }

    private Object sendOffsets(JsonNode request) throws Exception {
        producer(request).sendOffsetsToTransaction(offsets(request), new ConsumerGroupMetadata(Requests.text(request, "group")));
        return null;
    }

    /** The next offset of one partition, or under {@code offsets} those of several of the topic. */
    private static Map<TopicPartition, OffsetAndMetadata> offsets(JsonNode request) {
        String metadata = String.valueOf(Requests.text(request, "metadata"));
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        Requests.offsets(request).forEach((partition, offset) -> offsets.put(partition, new OffsetAndMetadata(offset, metadata)));
        return offsets;
    }
}
