import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;

/**
 * Asks a bank for a balance once, when a line is on standard input: a thread "bank" asks over a
 * connection that has been used before, and main waits for that thread.
 * System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Balance {
    private static Socket bank;
    private static BufferedReader answers;

    static String askBank(String question) throws Exception {
        bank.getOutputStream().write((question + "\n").getBytes());
        return answers.readLine();
    }

    private static void workALittle(int step) throws Exception {
        int length = 0;
        for (String line : Files.readAllLines(Path.of("/etc/passwd"))) {
            length += line.replace(':', ' ').length();
        }
        Thread.sleep((length + step * 13) % 70);
    }

    public static void main(String[] arguments) throws Exception {
        bank = new Socket("127.0.0.1", Integer.parseInt(arguments[0]));
        answers = new BufferedReader(new InputStreamReader(bank.getInputStream()));
        ExecutorService pool = Executors.newSingleThreadExecutor(work -> new Thread(work, "bank"));
        pool.submit(() -> askBank("name")).get();
        String[] self = Files.readSymbolicLink(Path.of("/proc/thread-self")).toString().split("/");
        System.out.println("{\"pid\": " + self[0] + ", \"tid\": " + self[2] + "}");
        for (int step = 0; System.in.available() == 0; step++) {
            workALittle(step);
        }
        long from = System.nanoTime();
        System.out.println("{\"from\": " + from + "}");
        pool.submit(() -> askBank("balance")).get();
        System.out.println("{\"from\": " + from + ", \"to\": " + System.nanoTime() + "}");
    }
}
