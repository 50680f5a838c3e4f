package lab;

import com.fasterxml.jackson.databind.JsonNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.message.ProduceRequestData;
import org.apache.kafka.common.message.TxnOffsetCommitRequestData;
import org.apache.kafka.common.message.WriteTxnMarkersRequestData;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.SimpleRecord;
import org.apache.kafka.common.requests.AbstractResponse;
import org.apache.kafka.common.requests.ProduceRequest;
import org.apache.kafka.common.requests.RequestHeader;
import org.apache.kafka.common.requests.TxnOffsetCommitRequest;
import org.apache.kafka.common.requests.WriteTxnMarkersRequest;

/** Requests no client would send: a write or offsets of a group after the end of their transaction, or a marker. */
final class RawOperations {
    // The last version of the request before the broker adds partitions to transactions by itself (KIP-890).
    private static final short PLAIN_PRODUCE = 11;
    private static final short PLAIN_OFFSETS = 3;
    // The last version of the request before it names the version of the transaction.
    private static final short PLAIN_MARKERS = 1;
    private final String bootstrap;

    RawOperations(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void register(Map<String, Driver.Operation> operations) {
        operations.put("raw_produce", this::produce);
        operations.put("raw_offsets", this::commitOffsets);
        operations.put("raw_marker", this::writeMarker);
    }

    private Object produce(JsonNode request) throws Exception {
        short version = (short) Requests.number(request, "version", PLAIN_PRODUCE);
        ProduceRequest produce = new ProduceRequest(data(request), version);
        RequestHeader header = new RequestHeader(ApiKeys.PRODUCE, version, "lab-raw", 1);
        ByteBuffer answer = exchange(Requests.text(request, "server"), produce.serializeWithHeader(header));
        return names(AbstractResponse.parseResponse(answer, header));
    }

    /** Offsets in a transaction, without the request before it that would enlist the group's partition. */
    private Object commitOffsets(JsonNode request) throws Exception {
        TxnOffsetCommitRequestData data = new TxnOffsetCommitRequestData()
            .setTransactionalId(Requests.text(request, "transactional_id")).setGroupId(Requests.text(request, "group"))
            .setProducerId(request.get("producer_id").asLong()).setProducerEpoch((short) request.get("producer_epoch").asInt())
            .setTopics(List.of(new TxnOffsetCommitRequestData.TxnOffsetCommitRequestTopic()
                .setName(Requests.text(request, "topic")).setPartitions(partitions(request))));
        RequestHeader header = new RequestHeader(ApiKeys.TXN_OFFSET_COMMIT, PLAIN_OFFSETS, "lab-raw", 1);
        TxnOffsetCommitRequest commit = new TxnOffsetCommitRequest(data, PLAIN_OFFSETS);
        ByteBuffer answer = exchange(Requests.text(request, "server"), commit.serializeWithHeader(header));
        return names(AbstractResponse.parseResponse(answer, header));
    }

    /** A marker that no coordinator sends. */
    private Object writeMarker(JsonNode request) throws Exception {
        WriteTxnMarkersRequestData.WritableTxnMarker marker = new WriteTxnMarkersRequestData.WritableTxnMarker()
            .setProducerId(request.get("producer_id").asLong()).setProducerEpoch((short) request.get("producer_epoch").asInt())
            .setCoordinatorEpoch(Requests.number(request, "coordinator_epoch", 0))
            .setTransactionResult("commit".equals(Requests.text(request, "outcome")))
            .setTopics(List.of(new WriteTxnMarkersRequestData.WritableTxnMarkerTopic()
                .setName(Requests.text(request, "topic")).setPartitionIndexes(List.of(Requests.number(request, "partition", 0)))));
        WriteTxnMarkersRequestData data = new WriteTxnMarkersRequestData().setMarkers(List.of(marker));
        RequestHeader header = new RequestHeader(ApiKeys.WRITE_TXN_MARKERS, PLAIN_MARKERS, "lab-raw", 1);
        WriteTxnMarkersRequest markers =
            WriteTxnMarkersRequest.parse(MessageUtil.toByteBufferAccessor(data, PLAIN_MARKERS), PLAIN_MARKERS);
        return names(AbstractResponse.parseResponse(
            exchange(Requests.text(request, "server"), markers.serializeWithHeader(header)), header));
    }

    private static List<TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition> partitions(JsonNode request) {
        List<TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition> partitions = new ArrayList<>();
        Requests.offsets(request).forEach((partition, offset) ->
            partitions.add(new TxnOffsetCommitRequestData.TxnOffsetCommitRequestPartition()
                .setPartitionIndex(partition.partition()).setCommittedOffset(offset).setCommittedMetadata("late")));
        return partitions;
    }

    private static List<String> names(AbstractResponse response) {
        List<String> errors = new ArrayList<>();
        response.errorCounts().forEach((error, count) -> errors.add(error.name()));
        return errors;
    }

    private static ProduceRequestData data(JsonNode request) {
        ProduceRequestData.PartitionProduceData partition = new ProduceRequestData.PartitionProduceData()
            .setIndex(Requests.number(request, "partition", 0)).setRecords(records(request));
        ProduceRequestData.TopicProduceData topic = new ProduceRequestData.TopicProduceData()
            .setName(Requests.text(request, "topic")).setPartitionData(List.of(partition));
        ProduceRequestData data = new ProduceRequestData().setAcks((short) -1).setTimeoutMs(10000)
            .setTransactionalId(Requests.text(request, "transactional_id"));
        data.topicData().add(topic);
        return data;
    }

    private static MemoryRecords records(JsonNode request) {
        List<SimpleRecord> records = new ArrayList<>();
        for (JsonNode record : request.get("records")) {
            long timestamp = record.hasNonNull("timestamp") ? record.get("timestamp").asLong() : System.currentTimeMillis();
            records.add(new SimpleRecord(timestamp, Requests.bytes(record.get("key")), Requests.bytes(record.get("value"))));
        }
        SimpleRecord[] all = records.toArray(new SimpleRecord[0]);
        long producerId = request.get("producer_id").asLong();
        short epoch = (short) request.get("producer_epoch").asInt();
        int sequence = request.get("sequence").asInt();
        Compression compression = Compression.of(request.path("compression").asText("none")).build();
        return request.path("transactional").asBoolean(true)
            ? MemoryRecords.withTransactionalRecords(compression, producerId, epoch, sequence, all)
            : MemoryRecords.withIdempotentRecords(compression, producerId, epoch, sequence, all);
    }

    private ByteBuffer exchange(String server, ByteBuffer request) throws Exception {
        String[] address = (server == null ? bootstrap.split(",")[0] : server).split(":");
        try (Socket socket = new Socket(address[0], Integer.parseInt(address[1]))) {
            DataOutputStream out = new DataOutputStream(socket.getOutputStream());
            byte[] bytes = new byte[request.remaining()];
            request.get(bytes);
            out.writeInt(bytes.length);
            out.write(bytes);
            out.flush();
            DataInputStream in = new DataInputStream(socket.getInputStream());
            byte[] answer = new byte[in.readInt()];
            in.readFully(answer);
            return ByteBuffer.wrap(answer);
        }
    }
}
