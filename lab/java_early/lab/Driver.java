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
 * The driver for brokers before 2.1, which clients of 4.x do not speak to: fewer operations, clients of 3.9.
 */
public final class Driver {
    interface Operation {
        Object run(JsonNode request) throws Exception;
    }

    private static final ObjectMapper JSON = new ObjectMapper();

    private Driver() {}

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), true, StandardCharsets.UTF_8);
        System.setOut(System.err);
        Map<String, Operation> operations = new TreeMap<>();
        new EarlyOperations(arguments[0]).register(operations);
        new ProducerOperations(arguments[0]).register(operations);
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            answers.println(JSON.writeValueAsString(answer(operations, JSON.readTree(line))));
        }
        Runtime.getRuntime().halt(0);
    }

    private static ObjectNode answer(Map<String, Operation> operations, JsonNode request) {
        ObjectNode answer = JSON.createObjectNode();
        try {
            Operation operation = operations.get(request.get("operation").asText());
            if (operation == null) {
                throw new UnsupportedOperationException("no such operation: " + request.get("operation"));
            }
            answer.set("result", JSON.valueToTree(operation.run(request)));
        } catch (Exception problem) {
            Throwable cause = problem;
            while ((cause instanceof ExecutionException || cause instanceof CompletionException) && cause.getCause() != null) {
                cause = cause.getCause();
            }
            problem.printStackTrace();
            answer.put("error", cause.getClass().getSimpleName());
            answer.put("message", String.valueOf(cause.getMessage()));
        }
        return answer;
    }
}
