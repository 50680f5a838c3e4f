import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.metadata.MetadataRecordType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.common.utils.ByteUtils;

/**
 * Encodes a record of every type and version with Kafka's own classes.
 *
 * One line per record on stdout: topic, what it is, key in hex ("-" for none), value in hex.
 */
public final class EveryRecord {

    private enum Filling { FULL, DEFAULT, NULLS, UNKNOWN_TAG }

    private static final Pattern NOT_IN_VERSION = Pattern.compile("non-default (\\w+) at version");
    private static final Map<String, String> COORDINATORS = new LinkedHashMap<>();

    static {
        COORDINATORS.put("__consumer_offsets", "group");
        COORDINATORS.put("__transaction_state", "transaction");
        COORDINATORS.put("__share_group_state", "share");
    }

    public static void main(String[] arguments) throws Exception {
        for (Map.Entry<String, String> topic : COORDINATORS.entrySet()) {
            coordinator(topic.getKey(), "org.apache.kafka.coordinator." + topic.getValue() + ".generated.CoordinatorRecordType");
        }
        for (MetadataRecordType type : MetadataRecordType.values()) {
            for (Made made : make(type.newMetadataRecord())) {
                print("__cluster_metadata", made, "-", framed(type.id(), made));
            }
        }
    }

    private static void coordinator(String topic, String enumeration) throws Exception {
        for (Object type : Class.forName(enumeration).getEnumConstants()) {
            short id = (short) type.getClass().getMethod("id").invoke(type);
            ApiMessage key = (ApiMessage) type.getClass().getMethod("newRecordKey").invoke(type);
            ApiMessage value = (ApiMessage) type.getClass().getMethod("newRecordValue").invoke(type);
            byte[] keyBytes = prefixed(id, make(key).get(0).bytes);
            for (Made made : make(value)) {
                print(topic, made, hex(keyBytes), hex(prefixed(made.version, made.bytes)));
            }
        }
    }

    /** An encoded message. */
    private record Made(String name, short version, Filling filling, byte[] bytes) { }

    private static List<Made> make(ApiMessage example) throws Exception {
        List<Made> all = new ArrayList<>();
        for (short version = example.lowestSupportedVersion(); version <= example.highestSupportedVersion(); version++) {
            for (Filling filling : Filling.values()) {
                all.add(new Made(example.getClass().getSimpleName(), version, filling, encode(example, version, filling)));
            }
        }
        return all;
    }

    /** Fields that the version does not have are found by trying, and left at their default. */
    private static byte[] encode(ApiMessage example, short version, Filling filling) throws Exception {
        Set<String> unknown = new HashSet<>();
        while (true) {
            Message message = example.getClass().getConstructor().newInstance();
            if (filling != Filling.DEFAULT) {
                fill(message, unknown, new Random(example.getClass().getSimpleName().hashCode() + version));
            }
            try {
                if (filling == Filling.NULLS) {
                    nullify(message, version);
                }
                if (filling == Filling.UNKNOWN_TAG) {
                    message.unknownTaggedFields().add(new RawTaggedField(999, "tag".getBytes(StandardCharsets.UTF_8)));
                }
                return write(message, version);
            } catch (UnsupportedVersionException refused) {
                Matcher field = NOT_IN_VERSION.matcher(refused.getMessage());
                if (field.find()) {
                    unknown.add(field.group(1));
                } else {
                    filling = Filling.FULL;  // a version without tagged fields
                }
            }
        }
    }

    private static byte[] write(Message message, short version) {
        ObjectSerializationCache cache = new ObjectSerializationCache();
        ByteBuffer buffer = ByteBuffer.allocate(message.size(cache, version));
        message.write(new ByteBufferAccessor(buffer), cache, version);
        return buffer.array();
    }

    /** Sets every field to null that may be null. */
    private static void nullify(Message message, short version) throws Exception {
        for (Field field : fields(message.getClass())) {
            if (field.getType().isPrimitive()) {
                continue;
            }
            Object before = field.get(message);
            field.set(message, null);
            try {
                write(message, version);
            } catch (NullPointerException required) {
                field.set(message, before);
            }
        }
    }

    private static void fill(Object message, Set<String> unknown, Random random) throws Exception {
        for (Field field : fields(message.getClass())) {
            if (!unknown.contains(field.getName())) {
                field.set(message, value(field.getName(), field.getType(), field.getGenericType(), unknown, random));
            }
        }
    }

    private static List<Field> fields(Class<?> type) {
        List<Field> found = new ArrayList<>();
        for (Field field : type.getDeclaredFields()) {
            boolean internal = field.getName().startsWith("_") || field.getName().equals("next") || field.getName().equals("prev");
            if (!Modifier.isStatic(field.getModifiers()) && !internal) {
                field.setAccessible(true);
                found.add(field);
            }
        }
        return found;
    }

    private static Object value(String name, Class<?> type, Type generic, Set<String> unknown, Random random) throws Exception {
        if (type == boolean.class) return true;
        if (type == byte.class || type == Byte.class) return (byte) (1 + random.nextInt(3));
        if (type == short.class || type == Short.class) return (short) (1 + random.nextInt(1000));
        if (type == int.class || type == Integer.class) return 1 + random.nextInt(60000);
        if (type == long.class || type == Long.class) return 1_700_000_000_000L + random.nextInt(1_000_000);
        if (type == double.class) return random.nextInt(100) / 8.0 + 1048576;
        if (type == String.class) return name + " \"" + random.nextInt(100) + "\" é";
        if (type == Uuid.class) return new Uuid(random.nextLong(), random.nextLong());
        if (type == byte[].class) return name.getBytes(StandardCharsets.UTF_8);
        if (type == ByteBuffer.class) return ByteBuffer.wrap(name.getBytes(StandardCharsets.UTF_8));
        if (Collection.class.isAssignableFrom(type)) return collection(name, type, generic, unknown, random);
        Object struct = type.getConstructor().newInstance();
        fill(struct, unknown, random);
        return struct;
    }

    @SuppressWarnings("unchecked")
    private static Object collection(String name, Class<?> type, Type generic, Set<String> unknown, Random random) throws Exception {
        boolean plain = type == List.class;
        Type parameters = plain ? generic : type.getGenericSuperclass();
        Class<?> element = (Class<?>) ((ParameterizedType) parameters).getActualTypeArguments()[0];
        Collection<Object> collection = plain ? new ArrayList<>() : (Collection<Object>) type.getConstructor().newInstance();
        for (int i = 0; i < 2; i++) {
            collection.add(value(name, element, element, unknown, random));
        }
        return collection;
    }

    private static byte[] prefixed(short number, byte[] content) {
        return ByteBuffer.allocate(2 + content.length).putShort(number).put(content).array();
    }

    private static String framed(short type, Made made) {
        ByteBuffer buffer = ByteBuffer.allocate(15 + made.bytes.length);
        for (int number : new int[] {1, type, made.version}) {
            ByteUtils.writeUnsignedVarint(number, buffer);
        }
        buffer.put(made.bytes).flip();
        byte[] content = new byte[buffer.remaining()];
        buffer.get(content);
        return hex(content);
    }

    private static String hex(byte[] content) {
        return HexFormat.of().formatHex(content);
    }

    private static void print(String topic, Made made, String key, String value) {
        System.out.println(String.join("\t", topic, made.name + " " + made.version + " " + made.filling.name().toLowerCase(), key, value));
    }
}
