import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.zip.CRC32;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.KafkaScheduler;
import org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile;
import org.apache.kafka.storage.internals.epoch.LeaderEpochFileCache;
import org.apache.kafka.storage.internals.log.AbortedTxn;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogSegment;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Does to a segment what a broker does after an unclean shutdown, and prints what it learnt: {@code Recover
 * timed|counted SCRATCH FILE}.
 *
 * <p>{@code LogSegment.recover} compares every checksum, rebuilds the three indexes and the producer state. It writes
 * beside the log, so it works in a folder of its own under SCRATCH, on a second name of the file: nothing is copied,
 * and nothing but the log is seen of the folder it comes from. With {@code counted} it counts the batches too, in a
 * second pass.
 */
final class Recover {
    private static final TopicPartition PARTITION = new TopicPartition("recovered", 0);
    private static final int MAX_TRANSACTION_TIMEOUT_MS = 900_000;
    // No producer expires, so that those of a segment from years ago are counted.
    private static final ProducerStateManagerConfig FOREVER = new ProducerStateManagerConfig(Integer.MAX_VALUE, false);

    private final KafkaScheduler scheduler = new KafkaScheduler(1);
    private final ProducerStateManager state;
    private final LeaderEpochFileCache epochs;
    private final LogSegment segment;

    private Recover(File folder) throws IOException {
        scheduler.startup();
        state = new ProducerStateManager(PARTITION, folder, MAX_TRANSACTION_TIMEOUT_MS, FOREVER, Time.SYSTEM);
        LogDirFailureChannel failures = new LogDirFailureChannel(1);
        File checkpoint = LeaderEpochCheckpointFile.newFile(folder);
        epochs = new LeaderEpochFileCache(PARTITION, new LeaderEpochCheckpointFile(checkpoint, failures), scheduler);
        // As Write says it: room in the indexes for the largest segment.
        LogConfig config = new LogConfig(Map.of("segment.bytes", Integer.MAX_VALUE, "segment.index.bytes", 64 << 20));
        segment = LogSegment.open(folder, 0, config, Time.SYSTEM, true, 0, false, "");
    }

    public static void main(String[] arguments) throws Exception {
        Path log = Path.of(arguments[2]);
        Path folder = Files.createTempDirectory(Path.of(arguments[1]), "recover-");
        try {
            Files.createLink(folder.resolve(log.getFileName()), log);
            new Recover(folder.toFile()).run(arguments[0].equals("counted"));
        } finally {
            delete(folder);
        }
    }

    private void run(boolean count) throws Exception {
        long started = System.nanoTime();
        int truncated = segment.recover(state, epochs);
        long end = segment.readNextOffset();
        state.updateMapEndOffset(end);
        state.takeSnapshot();
        double seconds = (System.nanoTime() - started) / 1e9;
        if (truncated > 0) {
            throw new IOException("Recovery cut " + truncated + " bytes off the log, which was not to be damaged.");
        }
        System.out.printf(
            "{\"records\": %d, \"batches\": %s, \"undecided\": %d, \"producers\": %d, \"seconds\": %.3f, ",
            end, count ? batches() : "null", state.firstUndecidedOffset().orElse(end), state.producerIdCount(),
            seconds);
        tellAborted(segment.txnIndex().allAbortedTxns());
        segment.onBecomeInactiveSegment();
        segment.close();
        scheduler.shutdown();
    }

    private long batches() {
        long batches = 0;
        for (RecordBatch ignored : segment.log().batches()) {
            batches++;
        }
        return batches;
    }

    /** Aborted transactions by their markers: how many there are, and a checksum of a line for each. */
    private static void tellAborted(List<AbortedTxn> aborted) {
        CRC32 checksum = new CRC32();
        for (AbortedTxn one : aborted) {
            String line = one.producerId() + " " + one.firstOffset() + " " + one.lastOffset() + "\n";
            checksum.update(line.getBytes(StandardCharsets.US_ASCII));
        }
        System.out.printf("\"aborted\": %d, \"abortedChecksum\": %d}%n", aborted.size(), checksum.getValue());
    }

    private static void delete(Path folder) throws IOException {
        try (var paths = Files.walk(folder)) {
            for (Path path : paths.sorted(Comparator.reverseOrder()).toList()) {
                Files.delete(path);
            }
        }
    }
}
