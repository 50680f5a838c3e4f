import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.MessageFormatter;

/**
 * Prints records with one of the formatters of kafka-console-consumer.
 *
 * Argument: the class of the formatter. Request on stdin, again and again: topic, partition (int), offset (long),
 * key and value; each of the texts is its length in bytes (int, -1 for null) and its bytes. Answer on stdout: what
 * the formatter wrote, then the exception that it threw, or an empty text.
 */
public final class FormatterServer {

    public static void main(String[] arguments) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        System.setOut(System.err);
        MessageFormatter formatter =
            (MessageFormatter) Class.forName(arguments[0]).getDeclaredConstructor().newInstance();
        formatter.configure(Map.of());
        while (true) {
            byte[] topic;
            try {
                topic = read(requests);
            } catch (EOFException end) {
                return;
            }
            int partition = requests.readInt();
            long offset = requests.readLong();
            byte[] key = read(requests);
            byte[] value = read(requests);
            ConsumerRecord<byte[], byte[]> record = new ConsumerRecord<>(
                new String(topic, StandardCharsets.UTF_8), partition, offset, key, value);
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            PrintStream out = new PrintStream(bytes, false, StandardCharsets.UTF_8);
            String thrown = "";
            try {
                formatter.writeTo(record, out);
            } catch (Throwable failure) {
                thrown = failure.toString();
            }
            out.flush();
            write(answers, bytes.toByteArray());
            write(answers, thrown.getBytes(StandardCharsets.UTF_8));
            answers.flush();
        }
    }

    private static byte[] read(DataInputStream requests) throws IOException {
        int length = requests.readInt();
        if (length < 0) {
            return null;
        }
        byte[] bytes = new byte[length];
        requests.readFully(bytes);
        return bytes;
    }

    private static void write(DataOutputStream answers, byte[] text) throws IOException {
        answers.writeInt(text.length);
        answers.write(text);
    }
}
