import java.io.File;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.TreeMap;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.CompletedTxn;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogSegment;

/**
 * Writes segments with their indexes, through the classes a broker writes with: {@code Write KIND FOLDER BYTES
 * SEGMENTS}.
 *
 * <p>A segment ends once BYTES of batches, counted before compression, are in it, so lz4 and its like hold the records
 * of plain. The same arguments give the same segments, and more of them begin with the same. What it wrote is told on
 * standard output as JSON.
 */
final class Write {
    private static final int LEADER_EPOCH = 3;
    private static final int COORDINATOR_EPOCH = 7;
    private static final short PRODUCER_EPOCH = 0;
    private static final long FIRST_PRODUCER_ID = 1000;
    private static final String LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    /** How a kind of segment is laid out. */
    private enum Kind {
        plain(2, 108, Compression.NONE),
        tiny(2, 1, Compression.NONE),
        lz4(2, 108, Compression.lz4().build()),
        zstd(2, 108, Compression.zstd().build()),
        gzip(2, 108, Compression.gzip().build()),
        snappy(2, 108, Compression.snappy().build()),
        txn(2, 10, Compression.NONE),
        v0(0, 108, Compression.NONE),
        v1(1, 108, Compression.NONE),
        v1_gzip(1, 108, Compression.gzip().build());

        final byte magic;
        final int recordsPerBatch;
        final Compression compression;

        Kind(int magic, int recordsPerBatch, Compression compression) {
            this.magic = (byte) magic;
            this.recordsPerBatch = recordsPerBatch;
            this.compression = compression;
        }

        boolean transactional() {
            return this == txn;
        }

        int producers() {
            return transactional() ? 50 : 8;
        }

        /** Before format 2, uncompressed messages follow one another without anything around them. */
        int batchesPerAppend() {
            return magic < RecordBatch.MAGIC_VALUE_V2 && compression == Compression.NONE ? recordsPerBatch : 1;
        }

        TimestampType timestampType() {
            return magic == RecordBatch.MAGIC_VALUE_V0 ? TimestampType.NO_TIMESTAMP_TYPE : TimestampType.CREATE_TIME;
        }
    }

    private final SplittableRandom dice = new SplittableRandom(20_251_009);
    private final ByteBuffer buffer = ByteBuffer.allocate(1 << 16);
    /** First offsets of the open transactions, by producer id. */
    private final Map<Long, Long> open = new TreeMap<>();
    private final Kind kind;
    private final int[] nextSequences;
    private LogSegment segment;
    private long offset;
    private long timestamp = 1_760_000_000_000L;
    private long batches;
    private long markers;
    private long written;

    private Write(Kind kind) {
        this.kind = kind;
        this.nextSequences = new int[kind.producers()];
    }

    public static void main(String[] arguments) throws IOException {
        Write write = new Write(Kind.valueOf(arguments[0].replace('-', '_')));
        for (int segments = Integer.parseInt(arguments[3]); segments > 0; segments--) {
            write.fillSegment(new File(arguments[1]), Long.parseLong(arguments[2]));
        }
        System.out.printf(
            "{\"records\": %d, \"batches\": %d, \"markers\": %d, \"uncompressed\": %d}%n",
            write.offset, write.batches, write.markers, write.written);
    }

    private void fillSegment(File folder, long bytes) throws IOException {
        // The largest segment there is, so that no size of the benchmark needs a second one.
        LogConfig config = new LogConfig(Map.of("segment.bytes", Integer.MAX_VALUE, "segment.index.bytes", 64 << 20));
        segment = LogSegment.open(folder, offset, config, Time.SYSTEM, 0, false);
        fill(written + bytes);
        segment.onBecomeInactiveSegment();
        segment.close();
    }

    private void fill(long end) throws IOException {
        while (written < end) {
            int producer = kind.transactional() ? dice.nextInt(kind.producers()) : (int) (batches % kind.producers());
            appendBatch(producer);
            if (kind.transactional() && dice.nextInt(10) == 0) {
                endTransaction(producer);
            }
        }
    }

    private void appendBatch(int producer) throws IOException {
        if (kind.transactional()) {
            open.putIfAbsent(FIRST_PRODUCER_ID + producer, offset);
        }
        buffer.clear();
        MemoryRecordsBuilder builder = kind.magic < RecordBatch.MAGIC_VALUE_V2 ? oldBuilder() : builder(producer);
        for (int index = 0; index < kind.recordsPerBatch; index++) {
            timestamp += dice.nextInt(2);
            builder.appendWithOffset(offset, timestamp, key(), value());
            offset++;
        }
        segment.append(offset - 1, builder.build());
        nextSequences[producer] = DefaultRecordBatch.incrementSequence(nextSequences[producer], kind.recordsPerBatch);
        count(kind.batchesPerAppend(), builder.uncompressedBytesWritten());
    }

    private MemoryRecordsBuilder builder(int producer) {
        return new MemoryRecordsBuilder(
            buffer, kind.magic, kind.compression, kind.timestampType(), offset,
            RecordBatch.NO_TIMESTAMP, FIRST_PRODUCER_ID + producer, PRODUCER_EPOCH, nextSequences[producer],
            kind.transactional(), false, LEADER_EPOCH, buffer.capacity());
    }

    private MemoryRecordsBuilder oldBuilder() {
        return MemoryRecords.builder(
            buffer, kind.magic, kind.compression, kind.timestampType(), offset, RecordBatch.NO_TIMESTAMP);
    }

    private void endTransaction(int producer) throws IOException {
        ControlRecordType type = dice.nextInt(10) == 0 ? ControlRecordType.ABORT : ControlRecordType.COMMIT;
        MemoryRecords marker = MemoryRecords.withEndTransactionMarker(
            offset, timestamp, LEADER_EPOCH, FIRST_PRODUCER_ID + producer, PRODUCER_EPOCH,
            new EndTransactionMarker(type, COORDINATOR_EPOCH));
        segment.append(offset, marker);
        noteInIndex(FIRST_PRODUCER_ID + producer, type == ControlRecordType.ABORT);
        offset++;
        markers++;
        count(1, marker.sizeInBytes());
    }

    /** As a broker's ProducerStateManager does: the last stable offset is that which holds once the marker is there. */
    private void noteInIndex(long producerId, boolean aborted) throws IOException {
        CompletedTxn ended = new CompletedTxn(producerId, open.remove(producerId), offset, aborted);
        long lastStableOffset = open.values().stream().mapToLong(Long::longValue).min().orElse(offset + 1);
        segment.updateTxnIndex(ended, lastStableOffset);
    }

    private void count(int added, long bytes) {
        batches += added;
        written += bytes;
    }

    private byte[] key() {
        return kind == Kind.tiny ? null : ascii(String.format("customer-%07d", dice.nextInt(1_000_000)));
    }

    /** A JSON document of 124 bytes, of 100 for tiny; half of it says little that is new, as in life. */
    private byte[] value() {
        int length = kind == Kind.tiny ? 100 : 124;
        StringBuilder text = new StringBuilder(length)
            .append("{\"order\":").append(offset)
            .append(",\"placed\":").append(timestamp)
            .append(",\"cents\":").append(dice.nextInt(100_000))
            .append(",\"state\":\"paid\",\"token\":\"");
        while (text.length() < length - 2) {
            text.append(LETTERS.charAt(dice.nextInt(LETTERS.length())));
        }
        return ascii(text.append("\"}").toString());
    }

    private static byte[] ascii(String text) {
        return text.getBytes(StandardCharsets.US_ASCII);
    }
}
