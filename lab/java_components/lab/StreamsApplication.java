package lab;

import java.io.FileReader;
import java.io.Reader;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.KeyValueBytesStoreSupplier;
import org.apache.kafka.streams.state.Stores;

/** A Kafka Streams application that counts records by key, until its process is ended. */
public final class StreamsApplication {
    private StreamsApplication() {}

    /** The file has the settings, the topics {@code input} and {@code output}, and {@code store}: disk or memory. */
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        try (Reader file = new FileReader(arguments[0])) {
            properties.load(file);
        }
        KafkaStreams streams = new KafkaStreams(topology(properties).build(), properties);
        streams.setStateListener((now, before) -> System.out.println("state " + now));
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        Thread.currentThread().join();
    }

    /** A store in memory also gets a repartition topic. */
    private static StreamsBuilder topology(Properties properties) {
        boolean isOnDisk = "disk".equals(properties.getProperty("store"));
        KeyValueBytesStoreSupplier store = isOnDisk
            ? Stores.persistentKeyValueStore("counts") : Stores.inMemoryKeyValueStore("counts");
        StreamsBuilder builder = new StreamsBuilder();
        KStream<String, String> input = builder.stream(properties.getProperty("input"));
        KStream<String, String> keyed = isOnDisk ? input : input.selectKey((key, value) -> value.split(" ")[0]);
        keyed.groupByKey(Grouped.as("words"))
            .count(Materialized.<String, Long>as(store).withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream().mapValues(String::valueOf).to(properties.getProperty("output"));
        return builder;
    }
}
