package lab;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;

/**
 * Reads one JSON request per line on stdin and answers with one JSON line on stdout.
 *
 * The scenarios are written in Python; the clients here are Kafka's own. At the end of stdin the process halts
 * without closing any client, so that what a scenario left open stays open.
 */
public final class Driver {
    static final ObjectMapper JSON = new ObjectMapper();

    interface Operation {
        Object run(JsonNode request) throws Exception;
    }

    private Driver() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Map<String, Operation> operations = operations(arguments[0]);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(answer(operations, JSON.readTree(line))));
        }
        Runtime.getRuntime().halt(0);
    }

    private static Map<String, Operation> operations(String bootstrap) {
        Map<String, Operation> all = new TreeMap<>();
        new AdminOperations(bootstrap).register(all);
        new TruthOperations(bootstrap).register(all);
        new ProducerOperations(bootstrap).register(all);
        new ConsumerOperations(bootstrap).register(all);
        new ShareOperations(bootstrap).register(all);
        new StreamsOperations(bootstrap).register(all);
        new RawOperations(bootstrap).register(all);
        new TimedOperations(bootstrap).register(all);
        return all;
    }

    private static ObjectNode answer(Map<String, Operation> operations, JsonNode request) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            Operation operation = operations.get(request.get("operation").asText());
            if (operation == null) {
                throw new IllegalArgumentException("no such operation: " + request.get("operation"));
            }
            answer.set("result", JSON.valueToTree(operation.run(request)));
        } catch (Exception problem) {
            Throwable cause = unwrap(problem);
            problem.printStackTrace();
            answer.put("error", cause.getClass().getSimpleName());
            answer.put("message", String.valueOf(cause.getMessage()));
        }
        return answer;
    }

    private static Throwable unwrap(Throwable problem) {
        boolean wrapper = problem instanceof ExecutionException || problem instanceof CompletionException;
        return wrapper && problem.getCause() != null ? unwrap(problem.getCause()) : problem;
    }
}
