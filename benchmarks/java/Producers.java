import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.util.Map;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

/**
 * Writes one segment with its indexes for very many producers, each of which writes next to nothing: {@code Producers
 * KIND FOLDER COUNT}. What it wrote is told on standard output as JSON.
 */
final class Producers {
    private static final long FIRST_PRODUCER_ID = 1000;
    private static final short PRODUCER_EPOCH = 0;
    private static final int LEADER_EPOCH = 3;
    private static final int COORDINATOR_EPOCH = 7;
    private static final byte[] VALUE = new byte[10];

    /** What the producers write, and when. */
    private enum Kind {
        /** A batch each. */
        once,
        /** A transaction of a batch, its marker, a batch outside of transactions; then the next producer. */
        in_turn,
        /** A transaction of a batch, its marker, the first batch of the next; all are open before the first marker. */
        at_once
    }

    private final ByteBuffer buffer = ByteBuffer.allocate(1 << 10);
    private final LogSegment segment;
    private long offset;
    private long bytes;

    private Producers(LogSegment segment) {
        this.segment = segment;
    }

    public static void main(String[] arguments) throws IOException {
        LogConfig config = new LogConfig(Map.of("segment.bytes", Integer.MAX_VALUE, "segment.index.bytes", 64 << 20));
        LogSegment segment = LogSegment.open(new File(arguments[1]), 0, config, Time.SYSTEM, 0, false);
        Producers producers = new Producers(segment);
        producers.write(Kind.valueOf(arguments[0].replace('-', '_')), Integer.parseInt(arguments[2]));
        segment.onBecomeInactiveSegment();
        segment.close();
        // A record per batch, so there are as many batches as offsets.
        System.out.printf(
            "{\"records\": %d, \"batches\": %d, \"uncompressed\": %d}%n",
            producers.offset, producers.offset, producers.bytes);
    }

    private void write(Kind kind, int count) throws IOException {
        int together = kind == Kind.at_once ? count : 1;
        for (int first = 0; first < count; first += together) {
            appendData(first, together, 0, kind != Kind.once);
            if (kind != Kind.once) {
                appendMarkers(first, together);
                appendData(first, together, 1, kind == Kind.at_once);
            }
        }
    }

    private void appendData(int first, int count, int sequence, boolean transactional) throws IOException {
        long next = FIRST_PRODUCER_ID + first;
        for (long producerId = next; producerId < next + count; producerId++) {
            buffer.clear();
            MemoryRecordsBuilder builder = new MemoryRecordsBuilder(
                buffer, RecordBatch.CURRENT_MAGIC_VALUE, Compression.NONE, TimestampType.CREATE_TIME, offset,
                RecordBatch.NO_TIMESTAMP, producerId, PRODUCER_EPOCH, sequence, transactional, false, LEADER_EPOCH,
                buffer.capacity());
            builder.appendWithOffset(offset, timestamp(), null, VALUE);
            append(builder.build());
        }
    }

    private void appendMarkers(int first, int count) throws IOException {
        EndTransactionMarker marker = new EndTransactionMarker(ControlRecordType.COMMIT, COORDINATOR_EPOCH);
        long next = FIRST_PRODUCER_ID + first;
        for (long producerId = next; producerId < next + count; producerId++) {
            append(MemoryRecords.withEndTransactionMarker(
                offset, timestamp(), LEADER_EPOCH, producerId, PRODUCER_EPOCH, marker));
        }
    }

    private void append(MemoryRecords records) throws IOException {
        segment.append(offset, records);
        offset++;
        bytes += records.sizeInBytes();
    }

    private long timestamp() {
        return 1_760_000_000_000L + offset / 10;
    }
}
