package lab;

import com.fasterxml.jackson.databind.JsonNode;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.IntStream;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/** A client that measures by its own clock what its transactions cost. */
final class TimedOperations {
    private static final byte[] VALUE = new byte[20];
    private final String bootstrap;

    TimedOperations(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void register(Map<String, Driver.Operation> operations) {
        operations.put("timed_transactions", this::measure);
    }

    /** Transactions over the first partitions of a topic, one after the other, and a consumer that waits for each. */
    private Object measure(JsonNode request) throws Exception {
        String topic = Requests.text(request, "topic");
        List<Map<String, Object>> measured = new ArrayList<>();
        try (KafkaProducer<byte[], byte[]> producer = producer(request); KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            producer.initTransactions();
            int most = Requests.number(request, "rounds", 1);
            consumer.assign(IntStream.range(0, 8).mapToObj(number -> new TopicPartition(topic, number)).toList());
            for (int round = 0; round < most; round++) {
                for (JsonNode partitions : request.get("partitions")) {
                    measured.add(one(producer, consumer, topic, partitions.asInt()));
                    // The next one must not wait until this one is complete.
                    Thread.sleep(80);
                }
            }
        }
        return measured;
    }

    private static Map<String, Object> one(
            KafkaProducer<byte[], byte[]> producer, KafkaConsumer<byte[], byte[]> consumer, String topic, int partitions)
            throws Exception {
        producer.beginTransaction();
        long began = System.nanoTime();
        write(producer, topic, 0);
        long first = System.nanoTime();
        write(producer, topic, 0);
        long second = System.nanoTime();
        for (int partition = 1; partition < partitions; partition++) {
            write(producer, topic, partition);
        }
        long written = System.nanoTime();
        producer.commitTransaction();
        long committed = System.nanoTime();
        int missing = partitions + 1;
        while (missing > 0) {
            missing -= consumer.poll(Duration.ofMillis(100)).count();
        }
        Map<String, Object> times = new LinkedHashMap<>();
        times.put("partitions", partitions);
        times.put("first", (first - began) / 1000);
        times.put("second", (second - first) / 1000);
        times.put("commit", (committed - written) / 1000);
        times.put("visible", (System.nanoTime() - written) / 1000);
        return times;
    }

    private static void write(KafkaProducer<byte[], byte[]> producer, String topic, int partition) throws Exception {
        producer.send(new ProducerRecord<>(topic, partition, null, VALUE)).get();
    }

    private KafkaProducer<byte[], byte[]> producer(JsonNode request) {
        Properties properties = new Properties();
        properties.put("linger.ms", "0");
        properties.putAll(Requests.properties(bootstrap, request));
        return new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        properties.put("isolation.level", "read_committed");
        properties.put("auto.offset.reset", "earliest");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
