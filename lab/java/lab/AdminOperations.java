package lab;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.CreateDelegationTokenOptions;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewPartitionReassignment;
import org.apache.kafka.clients.admin.NewPartitions;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.ScramCredentialInfo;
import org.apache.kafka.clients.admin.ScramMechanism;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.admin.UserScramCredentialAlteration;
import org.apache.kafka.clients.admin.UserScramCredentialDeletion;
import org.apache.kafka.clients.admin.UserScramCredentialUpsertion;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionInfo;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.acl.AccessControlEntry;
import org.apache.kafka.common.acl.AclBinding;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaAlteration;
import org.apache.kafka.common.quota.ClientQuotaEntity;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.token.delegation.DelegationToken;

/** Everything an administrator can do that leaves a trace on disk. */
final class AdminOperations {
    private final String bootstrap;
    private final Map<String, Admin> admins = new HashMap<>();

    AdminOperations(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    void register(Map<String, Driver.Operation> operations) {
        operations.put("admin", this::open);
        operations.put("describe_cluster", this::describeCluster);
        operations.put("create_topic", this::createTopic);
        operations.put("delete_topic", this::deleteTopic);
        operations.put("list_topics", this::listTopics);
        operations.put("add_partitions", this::addPartitions);
        operations.put("delete_records", this::deleteRecords);
        operations.put("alter_config", this::alterConfig);
        operations.put("alter_quota", this::alterQuota);
        operations.put("upsert_scram", this::upsertScram);
        operations.put("delete_scram", this::deleteScram);
        operations.put("create_acl", this::createAcl);
        operations.put("delete_acl", this::deleteAcl);
        operations.put("create_token", this::createToken);
        operations.put("expire_token", this::expireToken);
        operations.put("update_feature", this::updateFeature);
        operations.put("reassign", this::reassign);
        operations.put("elect_leader", this::electLeader);
        operations.put("move_replica", this::moveReplica);
        operations.put("unregister_broker", this::unregisterBroker);
        operations.put("add_voter", this::addVoter);
        operations.put("remove_voter", this::removeVoter);
        operations.put("describe_quorum", this::describeQuorum);
        operations.put("fence_producers", this::fenceProducers);
        operations.put("terminate_transaction", this::terminateTransaction);
        operations.put("abort_hanging", this::abortHanging);
        operations.put("alter_group_offset", this::alterGroupOffset);
        operations.put("delete_group_offset", this::deleteGroupOffset);
        operations.put("delete_group", this::deleteGroup);
        operations.put("alter_share_group_offset", this::alterShareGroupOffset);
        operations.put("delete_share_group_offset", this::deleteShareGroupOffset);
        operations.put("delete_share_group", this::deleteShareGroup);
    }

    private Object open(JsonNode request) {
        admins.put(Requests.text(request, "name"), create(request));
        return null;
    }

    private Admin create(JsonNode request) {
        Properties properties = new Properties();
        properties.put("default.api.timeout.ms", "30000");
        properties.putAll(Requests.properties(bootstrap, request));
        return Admin.create(properties);
    }

    private Admin admin(JsonNode request) {
        String name = request.hasNonNull("admin") ? Requests.text(request, "admin") : "";
        return admins.computeIfAbsent(name, key -> create(request));
    }

    private Object describeCluster(JsonNode request) throws Exception {
        return admin(request).describeCluster().nodes().get().stream().map(node -> node.id()).sorted().toList();
    }

    private Object createTopic(JsonNode request) throws Exception {
        String name = Requests.text(request, "name");
        NewTopic topic;
        if (request.hasNonNull("assignment")) {
            Map<Integer, List<Integer>> assignment = new HashMap<>();
            request.get("assignment").forEach(replicas -> assignment.put(assignment.size(), Requests.numbers(replicas)));
            topic = new NewTopic(name, assignment);
        } else {
            topic = new NewTopic(name, Requests.number(request, "partitions", 1), (short) Requests.number(request, "replicas", 1));
        }
        topic.configs(Requests.map(request, "configs"));
        return admin(request).createTopics(List.of(topic)).topicId(name).get().toString();
    }

    private Object deleteTopic(JsonNode request) throws Exception {
        return admin(request).deleteTopics(List.of(Requests.text(request, "name"))).all().get();
    }

    private Object listTopics(JsonNode request) throws Exception {
        Map<String, Object> topics = new TreeMap<>();
        Set<String> names = admin(request).listTopics(new org.apache.kafka.clients.admin.ListTopicsOptions().listInternal(true)).names().get();
        admin(request).describeTopics(names).allTopicNames().get().forEach((name, description) -> {
            Map<String, Object> topic = new LinkedHashMap<>();
            topic.put("topic_id", description.topicId().toString());
            topic.put("internal", description.isInternal());
            topic.put("partitions", description.partitions().stream().map(AdminOperations::describe).toList());
            topics.put(name, topic);
        });
        return topics;
    }

    private static Map<String, Object> describe(TopicPartitionInfo info) {
        Map<String, Object> partition = new LinkedHashMap<>();
        partition.put("partition", info.partition());
        partition.put("leader", info.leader() == null ? -1 : info.leader().id());
        partition.put("replicas", info.replicas().stream().map(node -> node.id()).toList());
        partition.put("isr", info.isr().stream().map(node -> node.id()).toList());
        return partition;
    }

    private Object addPartitions(JsonNode request) throws Exception {
        Map<String, NewPartitions> growth =
            Map.of(Requests.text(request, "name"), NewPartitions.increaseTo(request.get("partitions").asInt()));
        return admin(request).createPartitions(growth).all().get();
    }

    private Object deleteRecords(JsonNode request) throws Exception {
        RecordsToDelete before = RecordsToDelete.beforeOffset(request.get("before").asLong());
        return admin(request).deleteRecords(Map.of(Requests.partition(request), before)).all().get();
    }

    /** Settings with a null value are deleted, the others set. */
    private Object alterConfig(JsonNode request) throws Exception {
        ConfigResource.Type type = ConfigResource.Type.valueOf(Requests.text(request, "type"));
        ConfigResource resource = new ConfigResource(type, String.valueOf(Requests.text(request, "name")));
        Collection<AlterConfigOp> changes = new ArrayList<>();
        Requests.map(request, "configs").forEach((key, value) -> changes.add(new AlterConfigOp(new ConfigEntry(key, value),
            value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET)));
        return admin(request).incrementalAlterConfigs(Map.of(resource, changes)).all().get();
    }

    private Object alterQuota(JsonNode request) throws Exception {
        Double value = request.hasNonNull("value") ? Double.valueOf(request.get("value").asDouble()) : null;
        ClientQuotaAlteration change = new ClientQuotaAlteration(new ClientQuotaEntity(Requests.map(request, "entity")),
            List.of(new ClientQuotaAlteration.Op(Requests.text(request, "key"), value)));
        return admin(request).alterClientQuotas(List.of(change)).all().get();
    }

    private Object upsertScram(JsonNode request) throws Exception {
        ScramCredentialInfo info = new ScramCredentialInfo(mechanism(request), Requests.number(request, "iterations", 4096));
        UserScramCredentialAlteration change = new UserScramCredentialUpsertion(
            Requests.text(request, "user"), info, Requests.bytes(request.get("password")), Requests.bytes(request.get("salt")));
        return admin(request).alterUserScramCredentials(List.of(change)).all().get();
    }

    private Object deleteScram(JsonNode request) throws Exception {
        UserScramCredentialAlteration change = new UserScramCredentialDeletion(Requests.text(request, "user"), mechanism(request));
        return admin(request).alterUserScramCredentials(List.of(change)).all().get();
    }

    private static ScramMechanism mechanism(JsonNode request) {
        return ScramMechanism.fromMechanismName(Requests.text(request, "mechanism"));
    }

    private static AclBinding acl(JsonNode request) {
        ResourcePattern pattern = new ResourcePattern(ResourceType.valueOf(Requests.text(request, "resource")),
            Requests.text(request, "name"), PatternType.valueOf(Requests.text(request, "pattern")));
        return new AclBinding(pattern, new AccessControlEntry(Requests.text(request, "principal"), Requests.text(request, "host"),
            AclOperation.valueOf(Requests.text(request, "permission_to")), AclPermissionType.valueOf(Requests.text(request, "permission"))));
    }

    private Object createAcl(JsonNode request) throws Exception {
        return admin(request).createAcls(List.of(acl(request))).all().get();
    }

    private Object deleteAcl(JsonNode request) throws Exception {
        return admin(request).deleteAcls(List.of(acl(request).toFilter())).all().get().size();
    }

    private Object createToken(JsonNode request) throws Exception {
        DelegationToken token = admin(request).createDelegationToken(new CreateDelegationTokenOptions()).delegationToken().get();
        return Requests.hex(token.hmac());
    }

    private Object expireToken(JsonNode request) throws Exception {
        return admin(request).expireDelegationToken(Requests.bytes(request.get("hmac"))).expiryTimestamp().get();
    }

    private Object updateFeature(JsonNode request) throws Exception {
        FeatureUpdate.UpgradeType type = FeatureUpdate.UpgradeType.valueOf(
            request.hasNonNull("type") ? Requests.text(request, "type") : "UPGRADE");
        FeatureUpdate update = new FeatureUpdate((short) request.get("level").asInt(), type);
        return admin(request).updateFeatures(Map.of(Requests.text(request, "name"), update), new UpdateFeaturesOptions()).all().get();
    }

    private Object reassign(JsonNode request) throws Exception {
        Optional<NewPartitionReassignment> target = request.hasNonNull("replicas")
            ? Optional.of(new NewPartitionReassignment(Requests.numbers(request.get("replicas")))) : Optional.empty();
        return admin(request).alterPartitionReassignments(Map.of(Requests.partition(request), target)).all().get();
    }

    private Object electLeader(JsonNode request) throws Exception {
        ElectionType type = ElectionType.valueOf(Requests.text(request, "type"));
        return admin(request).electLeaders(type, Set.of(Requests.partition(request))).all().get();
    }

    private Object moveReplica(JsonNode request) throws Exception {
        TopicPartitionReplica replica = new TopicPartitionReplica(Requests.text(request, "topic"),
            Requests.number(request, "partition", 0), request.get("broker").asInt());
        return admin(request).alterReplicaLogDirs(Map.of(replica, Requests.text(request, "path"))).all().get();
    }

    private Object unregisterBroker(JsonNode request) throws Exception {
        return admin(request).unregisterBroker(request.get("broker").asInt()).all().get();
    }

    private Object addVoter(JsonNode request) throws Exception {
        String[] address = Requests.text(request, "endpoint").split(":");
        Set<org.apache.kafka.clients.admin.RaftVoterEndpoint> endpoints = Set.of(
            new org.apache.kafka.clients.admin.RaftVoterEndpoint("CONTROLLER", address[0], Integer.parseInt(address[1])));
        return admin(request).addRaftVoter(request.get("voter").asInt(), directory(request), endpoints).all().get();
    }

    private Object removeVoter(JsonNode request) throws Exception {
        return admin(request).removeRaftVoter(request.get("voter").asInt(), directory(request)).all().get();
    }

    private static org.apache.kafka.common.Uuid directory(JsonNode request) {
        return org.apache.kafka.common.Uuid.fromString(Requests.text(request, "directory"));
    }

    private Object describeQuorum(JsonNode request) throws Exception {
        var quorum = admin(request).describeMetadataQuorum().quorumInfo().get();
        return Map.of("leader", quorum.leaderId(), "voters", quorum.voters().stream().map(each -> each.replicaId()).sorted().toList());
    }

    private Object fenceProducers(JsonNode request) throws Exception {
        return admin(request).fenceProducers(Requests.texts(request, "ids")).all().get();
    }

    private Object terminateTransaction(JsonNode request) throws Exception {
        return admin(request).forceTerminateTransaction(Requests.text(request, "id")).result().get();
    }

    /** What kafka-transactions --abort does: a marker written without the coordinator. */
    private Object abortHanging(JsonNode request) throws Exception {
        AbortTransactionSpec spec = new AbortTransactionSpec(Requests.partition(request), request.get("producer_id").asLong(),
            (short) request.get("producer_epoch").asInt(), Requests.number(request, "coordinator_epoch", -1));
        return admin(request).abortTransaction(spec).all().get();
    }

    private Object alterGroupOffset(JsonNode request) throws Exception {
        OffsetAndMetadata offset = new OffsetAndMetadata(
            request.get("offset").asLong(), String.valueOf(Requests.text(request, "metadata")));
        return admin(request).alterConsumerGroupOffsets(
            Requests.text(request, "group"), Map.of(Requests.partition(request), offset)).all().get();
    }

    private Object deleteGroupOffset(JsonNode request) throws Exception {
        return admin(request).deleteConsumerGroupOffsets(
            Requests.text(request, "group"), Set.of(Requests.partition(request))).all().get();
    }

    private Object deleteGroup(JsonNode request) throws Exception {
        return admin(request).deleteConsumerGroups(List.of(Requests.text(request, "group"))).all().get();
    }

    private Object alterShareGroupOffset(JsonNode request) throws Exception {
        return admin(request).alterShareGroupOffsets(Requests.text(request, "group"),
            Map.of(Requests.partition(request), request.get("offset").asLong())).all().get();
    }

    private Object deleteShareGroupOffset(JsonNode request) throws Exception {
        return admin(request).deleteShareGroupOffsets(
            Requests.text(request, "group"), Set.of(Requests.text(request, "topic"))).all().get();
    }

    private Object deleteShareGroup(JsonNode request) throws Exception {
        return admin(request).deleteShareGroups(List.of(Requests.text(request, "group"))).all().get();
    }
}
