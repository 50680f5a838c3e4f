package lab;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import org.apache.kafka.common.TopicPartition;

/** Takes requests apart: bytes travel as hex, absent things as null. */
final class Requests {
    private Requests() {}

    static byte[] bytes(JsonNode node) {
        return node == null || node.isNull() ? null : HexFormat.of().parseHex(node.asText());
    }

    static String hex(byte[] bytes) {
        return bytes == null ? null : HexFormat.of().formatHex(bytes);
    }

    static String text(JsonNode request, String name) {
        JsonNode node = request.get(name);
        return node == null || node.isNull() ? null : node.asText();
    }

    static int number(JsonNode request, String name, int otherwise) {
        return request.hasNonNull(name) ? request.get(name).asInt() : otherwise;
    }

    static TopicPartition partition(JsonNode request) {
        return new TopicPartition(text(request, "topic"), number(request, "partition", 0));
    }

    /** Offsets by partition of the topic; {@code partition} and {@code offset} stand for a single one. */
    static Map<TopicPartition, Long> offsets(JsonNode request) {
        if (!request.hasNonNull("offsets")) {
            return Map.of(partition(request), request.get("offset").asLong());
        }
        Map<TopicPartition, Long> offsets = new TreeMap<>(Comparator.comparingInt(TopicPartition::partition));
        request.get("offsets").fields().forEachRemaining(entry ->
            offsets.put(new TopicPartition(text(request, "topic"), Integer.parseInt(entry.getKey())), entry.getValue().asLong()));
        return offsets;
    }

    static List<String> texts(JsonNode request, String name) {
        List<String> texts = new ArrayList<>();
        if (request.hasNonNull(name)) {
            request.get(name).forEach(node -> texts.add(node.asText()));
        }
        return texts;
    }

    static List<Integer> numbers(JsonNode node) {
        List<Integer> numbers = new ArrayList<>();
        node.forEach(each -> numbers.add(each.asInt()));
        return numbers;
    }

    static Map<String, String> map(JsonNode request, String name) {
        Map<String, String> map = new HashMap<>();
        if (request.hasNonNull(name)) {
            request.get(name).fields().forEachRemaining(entry ->
                map.put(entry.getKey(), entry.getValue().isNull() ? null : entry.getValue().asText()));
        }
        return map;
    }

    static Properties properties(String bootstrap, JsonNode request) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        map(request, "config").forEach(properties::put);
        return properties;
    }

    /**
     * Runs an action with the libraries' own loader as context: client plug-ins are looked up there.
     */
    static <T> T retrying(int seconds, Callable<T> action) throws Exception {
        long deadline = System.nanoTime() + seconds * 1_000_000_000L;
        while (true) {
            try {
                return action.call();
            } catch (Exception problem) {
                if (System.nanoTime() > deadline) {
                    throw problem;
                }
                Thread.sleep(200);
            }
        }
    }
}
