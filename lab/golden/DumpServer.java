import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;

import org.apache.kafka.common.utils.Exit;

/**
 * Runs one dump tool's main again and again in one JVM, and hands back what a process of its own would have written.
 *
 * Request on stdin: a count, then that many arguments; a text is its length in bytes (int) and its UTF-8 bytes.
 * Answer on stdout: exit code, text of stdout, text of stderr.
 *
 * The streams are replaced before any class of the tool is loaded, because Scala's Console keeps the System.out it
 * finds when it is initialized.
 */
public final class DumpServer {

    /** Thrown in place of the end of the process. */
    private static final class Exited extends RuntimeException {
        final int status;

        Exited(int status) {
            super(null, null, false, false);
            this.status = status;
        }
    }

    /** A stream whose content can be taken out, so that one PrintStream serves every run. */
    private static final class Capture extends OutputStream {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        final PrintStream printer = new PrintStream(this, true, StandardCharsets.UTF_8);

        @Override
        public synchronized void write(int value) {
            bytes.write(value);
        }

        @Override
        public synchronized void write(byte[] source, int from, int length) {
            bytes.write(source, from, length);
        }

        synchronized byte[] take() {
            printer.flush();
            byte[] content = bytes.toByteArray();
            bytes.reset();
            return content;
        }
    }

    private static final int RUNS_BETWEEN_COLLECTIONS = 100;

    public static void main(String[] arguments) throws Exception {
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        Capture out = new Capture();
        Capture err = new Capture();
        System.setOut(out.printer);
        System.setErr(err.printer);
        Exit.setExitProcedure((status, message) -> { throw new Exited(status); });
        Exit.setHaltProcedure((status, message) -> { throw new Exited(status); });
        Method tool = Class.forName(arguments[0]).getMethod("main", String[].class);
        for (int run = 1; ; run++) {
            String[] request = readRequest(requests);
            if (request == null) {
                return;
            }
            int status = call(tool, request);
            answers.writeInt(status);
            writeText(answers, out.take());
            writeText(answers, err.take());
            answers.flush();
            if (run % RUNS_BETWEEN_COLLECTIONS == 0) {
                System.gc();  // the tools leave files and mapped indexes to the collector
            }
        }
    }

    private static int call(Method tool, String[] request) throws IllegalAccessException {
        try {
            tool.invoke(null, (Object) request);
            return 0;
        } catch (InvocationTargetException wrapped) {
            Throwable cause = wrapped.getCause();
            if (cause instanceof Exited) {
                return ((Exited) cause).status;
            }
            System.err.print("Exception in thread \"main\" ");
            cause.printStackTrace();
            return 1;
        }
    }

    private static String[] readRequest(DataInputStream requests) throws IOException {
        int count;
        try {
            count = requests.readInt();
        } catch (EOFException end) {
            return null;
        }
        String[] texts = new String[count];
        for (int i = 0; i < count; i++) {
            byte[] text = new byte[requests.readInt()];
            requests.readFully(text);
            texts[i] = new String(text, StandardCharsets.UTF_8);
        }
        return texts;
    }

    private static void writeText(DataOutputStream answers, byte[] text) throws IOException {
        answers.writeInt(text.length);
        answers.write(text);
    }
}
