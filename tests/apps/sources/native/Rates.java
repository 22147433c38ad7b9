import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.net.Socket;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A cache of exchange rates, one entry for each day, which asks a service for what it lacks.
 * The thread "heartbeat" needs today's rate every 20 ms. When the file of the second argument appears,
 * the thread "new-day" is the first one to need the next day's; the other one waits for the same entry
 * then. System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Rates {
    private static final int PERIOD_MS = 20;
    private static final long SLOW_NS = 100_000_000;
    private static final ConcurrentHashMap<String, String> rates = new ConcurrentHashMap<>();
    private static volatile String today = "monday";
    private static volatile int result;
    private static Socket service;
    private static BufferedReader replies;

    static String loadRates(String day) {
        try {
            service.getOutputStream().write((day + "\n").getBytes());
            return replies.readLine();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    static void convert() {
        result += rates.computeIfAbsent(today, Rates::loadRates).length();
    }

    static void beginDay(String next) {
        rates.computeIfAbsent(next, day -> {
            today = day;
            return loadRates(day);
        });
    }

    private static void beat() {
        while (true) {
            long from = System.nanoTime();
            convert();
            long to = System.nanoTime();
            if (to - from >= SLOW_NS) {
                System.out.println("{\"from\": " + from + ", \"to\": " + to + "}");
            }
            pause(PERIOD_MS);
        }
    }

    private static void waitForDay(File flag) {
        while (!flag.delete()) {
            pause(10);
        }
        beginDay("tuesday");
    }

    private static void pause(int milliseconds) {
        try {
            Thread.sleep(milliseconds);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        service = new Socket("127.0.0.1", Integer.parseInt(arguments[0]));
        replies = new BufferedReader(new InputStreamReader(service.getInputStream()));
        // Has it compiled, so that the compiled methods have names.
        for (int n = 0; n < 50_000; n++) {
            convert();
        }
        new Thread(Rates::beat, "heartbeat").start();
        new Thread(() -> waitForDay(new File(arguments[1])), "new-day").start();
        pause(500);
        System.out.println("{}");
    }
}
