import java.io.File;
import java.nio.charset.StandardCharsets;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.TreeMap;
import java.util.TreeSet;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

import org.apache.kafka.common.metadata.FeatureLevelRecord;
import org.apache.kafka.common.metadata.MetadataJsonConverters;
import org.apache.kafka.common.metadata.UserScramCredentialRecord;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.record.internal.FileRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.MetadataProvenance;
import org.apache.kafka.image.loader.MetadataBatchLoader;
import org.apache.kafka.image.writer.ImageWriterOptions;
import org.apache.kafka.image.writer.RecordListWriter;
import org.apache.kafka.metadata.MetadataRecordSerde;
import org.apache.kafka.metadata.SupportedConfigChecker;
import org.apache.kafka.raft.Batch;
import org.apache.kafka.raft.LeaderAndEpoch;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Replays metadata logs as a broker does, and writes the images that it had.
 *
 * Each argument is a folder of {@code __cluster_metadata}. Each line of the output is one image, in JSON: the folder,
 * the snapshot that the image begins with (null for the log alone), the offset that it ends at, how many records could
 * not be applied, and the records that ImageWriter writes of it, sorted.
 */
public final class MetadataImages {
    private static final LeaderAndEpoch LEADER = new LeaderAndEpoch(OptionalInt.of(1), 1);

    private final PrintStream out;
    private final File folder;
    private final Map<Long, File> snapshots = new TreeMap<>();
    private final Map<Long, File> segments = new TreeMap<>();
    private MetadataImage image;
    private int faults;

    private MetadataImages(File folder, PrintStream out) {
        this.folder = folder;
        this.out = out;
        File[] files = folder.listFiles();
        Arrays.sort(files);
        for (File file : files) {
            String name = file.getName();
            if (name.endsWith(".log")) {
                segments.put(Long.parseLong(name.substring(0, 20)), file);
            } else if (name.endsWith(".checkpoint")) {
                snapshots.put(Long.parseLong(name.substring(0, 20)), file);
            }
        }
    }

    public static void main(String[] folders) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String folder : folders) {
            new MetadataImages(new File(folder), out).writeAll();
        }
    }

    private void writeAll() throws Exception {
        List<Long> starts = new ArrayList<>(snapshots.keySet());
        long logStart = segments.isEmpty() ? Long.MAX_VALUE : segments.keySet().iterator().next();
        for (long start : starts) {
            loadSnapshot(start);
            write(snapshots.get(start).getName(), start);
            if (start >= logStart) {
                replayFrom(start, snapshots.get(start).getName());
            }
        }
        if (logStart == 0) {
            image = MetadataImage.EMPTY;
            faults = 0;
            replayFrom(0, null);
        }
    }

    private void loadSnapshot(long offset) throws Exception {
        faults = 0;
        MetadataDelta delta = new MetadataDelta.Builder().setImage(MetadataImage.EMPTY).build();
        try (FileRecords file = FileRecords.open(snapshots.get(offset), false)) {
            for (RecordBatch batch : file.batches()) {
                for (ApiMessageAndVersion record : records(batch)) {
                    try {
                        delta.replay(record.message());
                    } catch (RuntimeException error) {
                        faults++;
                    }
                }
            }
        }
        delta.finishSnapshot();
        image = delta.apply(new MetadataProvenance(offset - 1, 1, 0, true));
    }

    /** Replays the log from an offset, and writes the image at each later snapshot and at the end. */
    private void replayFrom(long start, String from) throws Exception {
        MetadataBatchLoader loader = new MetadataBatchLoader(
            new LogContext(""),
            Time.SYSTEM,
            (message, cause) -> {
                faults++;
                return new RuntimeException(message, cause);
            },
            (delta, next, manifest) -> image = next,
            SupportedConfigChecker.TRUE);
        loader.resetToImage(image);
        TreeSet<Long> wanted = new TreeSet<>(snapshots.keySet());
        wanted.removeIf(offset -> offset <= start);
        long end = start;
        for (File segment : segments.values()) {
            try (FileRecords file = FileRecords.open(segment, false)) {
                for (RecordBatch batch : file.batches()) {
                    if (batch.baseOffset() < start) {
                        continue;
                    }
                    while (!wanted.isEmpty() && wanted.first() <= batch.baseOffset()) {
                        write(from, wanted.pollFirst());
                    }
                    List<ApiMessageAndVersion> records = records(batch);
                    end = batch.lastOffset() + 1;
                    if (records.isEmpty()) {
                        continue;
                    }
                    loader.loadBatch(
                        Batch.data(batch.baseOffset(), batch.partitionLeaderEpoch(), batch.maxTimestamp(),
                            batch.sizeInBytes(), records),
                        LEADER);
                    loader.maybeFlushBatches(LEADER, true);
                }
            }
        }
        write(from, end);
    }

    private List<ApiMessageAndVersion> records(RecordBatch batch) {
        List<ApiMessageAndVersion> records = new ArrayList<>();
        if (batch.isControlBatch()) {
            return records;
        }
        for (Record record : batch) {
            try {
                records.add(MetadataRecordSerde.INSTANCE.read(new ByteBufferAccessor(record.value()), record.valueSize()));
            } catch (RuntimeException error) {
                faults++;
            }
        }
        return records;
    }

    private void write(String from, long offset) {
        RecordListWriter writer = new RecordListWriter();
        boolean hasVersion = image.features().metadataVersion().isPresent();
        ImageWriterOptions.Builder options = hasVersion
            ? new ImageWriterOptions.Builder(image)
            : new ImageWriterOptions.Builder(MetadataVersion.latestProduction());
        image.write(writer, options.setLossHandler(loss -> { }).build());
        List<String> lines = new ArrayList<>();
        for (ApiMessageAndVersion record : writer.records()) {
            ApiMessage message = record.message();
            if (!hasVersion && message instanceof FeatureLevelRecord feature && feature.name().equals("metadata.version")) {
                continue;  // the writer needs a version, and the image has none
            }
            if (message instanceof UserScramCredentialRecord scram) {
                scram.setSalt(new byte[0]).setStoredKey(new byte[0]).setServerKey(new byte[0]);
            }
            ObjectNode node = new ObjectNode(JsonNodeFactory.instance);
            node.put("type", message.getClass().getSimpleName());
            node.put("version", record.version());
            node.set("data", MetadataJsonConverters.writeJson(message, record.version()));
            lines.add(node.toString());
        }
        lines.sort(null);
        out.printf("{\"folder\":\"%s\",\"from\":%s,\"offset\":%d,\"faults\":%d,\"records\":[%s]}%n",
            folder, from == null ? "null" : '"' + from + '"', offset, faults, String.join(",", lines));
    }
}
