package lab;

import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.api.common.JobExecutionResult;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A Flink job whose sink writes to Kafka exactly once, with all of Flink in this process. */
public final class FlinkJob {
    private FlinkJob() {}

    /**
     * Arguments: bootstrap servers, topic, prefix of the transactional ids, folder of the checkpoints, a file during
     * whose existence no checkpoint completes, one during whose existence the sink does nothing, and the checkpoint to
     * start from, if any.
     */
    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "3 s");
        settings.setString("execution.checkpointing.dir", "file://" + arguments[3]);
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("execution.checkpointing.num-retained", "20");
        settings.setString("restart-strategy.type", "disable");
        if (arguments.length > 6) {
            settings.setString("execution.state-recovery.path", "file://" + arguments[6]);
        }
        StreamExecutionEnvironment environment = StreamExecutionEnvironment.createLocalEnvironment(2, settings);
        numbers(environment, "clicks").map(new Held("", arguments[5])).uid("paused").sinkTo(KafkaSink.<String>builder()
            .setBootstrapServers(arguments[0])
            .setRecordSerializer(KafkaRecordSerializationSchema.builder()
                .setTopic(arguments[1]).setValueSerializationSchema(new SimpleStringSchema()).build())
            .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
            .setTransactionalIdPrefix(arguments[2])
            .setProperty("transaction.timeout.ms", "900000")
            .build()).uid("sink");
        numbers(environment, "slow").map(new Held(arguments[4], "")).uid("held").sinkTo(new DiscardingSink<>());
        JobExecutionResult result = environment.execute("lab");
        System.out.println("ended " + result.getJobID());
    }

    private static DataStream<String> numbers(StreamExecutionEnvironment environment, String name) {
        DataGeneratorSource<String> source = new DataGeneratorSource<>(
            number -> "click " + number, Long.MAX_VALUE, RateLimiterStrategy.perSecond(4), Types.STRING);
        return environment.fromSource(source, WatermarkStrategy.noWatermarks(), name).uid(name);
    }

    /** An operator that waits as long as a file exists: when a checkpoint is taken, or with each record. */
    private static final class Held implements MapFunction<String, String>, CheckpointedFunction {
        private final String ofCheckpoints;
        private final String ofRecords;

        private Held(String ofCheckpoints, String ofRecords) {
            this.ofCheckpoints = ofCheckpoints;
            this.ofRecords = ofRecords;
        }

        @Override
        public String map(String value) throws Exception {
            wait(ofRecords);
            return value;
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            wait(ofCheckpoints);
        }

        @Override
        public void initializeState(FunctionInitializationContext context) {}

        private static void wait(String file) throws InterruptedException {
            while (!file.isEmpty() && Files.exists(Path.of(file))) {
                Thread.sleep(100);
            }
        }
    }
}
