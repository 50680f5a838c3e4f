import java.io.File;
import java.io.IOException;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.BufferSupplier;
import org.apache.kafka.common.utils.CloseableIterator;

/**
 * Reads a segment with Kafka's own reader and prints how many records it met: {@code Read batches|records FILE}.
 *
 * <p>Every checksum is compared. For records, each one is decoded as a consumer decodes it, and its size is added up.
 */
final class Read {
    private static final BufferSupplier BUFFERS = BufferSupplier.create();
    private static long records;
    private static long bytes;

    public static void main(String[] arguments) throws IOException {
        boolean decode = arguments[0].equals("records");
        try (FileRecords file = FileRecords.open(new File(arguments[1]), false)) {
            for (RecordBatch batch : file.batches()) {
                batch.ensureValid();
                if (decode) {
                    readRecords(batch);
                } else {
                    // Formats 0 and 1 do not say how many; these segments begin at 0 and have no gaps.
                    records = batch.nextOffset();
                    bytes += batch.sizeInBytes();
                }
            }
        }
        System.out.printf("{\"records\": %d, \"bytes\": %d}%n", records, bytes);
    }

    private static void readRecords(RecordBatch batch) {
        try (CloseableIterator<Record> iterator = batch.streamingIterator(BUFFERS)) {
            while (iterator.hasNext()) {
                Record record = iterator.next();
                records++;
                bytes += Math.max(0, record.keySize()) + Math.max(0, record.valueSize());
            }
        }
    }
}
