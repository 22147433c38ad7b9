import java.util.ArrayList;
import java.util.List;

/**
 * A catalogue with so many articles that to collect garbage takes more than 130 ms. The thread
 * "cleaner" has that done about every 0.4 s, because somebody has read that it helps. The thread
 * "heartbeat" does a little every 10 ms, and prints when that was late.
 * System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Catalogue {
    private static final int PERIOD_MS = 10;
    private static final long SLOW_NS = 80_000_000, WANTED_NS = 130_000_000, MOST = 12_000_000;
    private static Article articles;
    private static volatile int titles;

    private record Article(int number, Article next) {}

    private static long collect() {
        long from = System.nanoTime();
        System.gc();
        return System.nanoTime() - from;
    }

    private static void addArticles() {
        for (int number = 0; number < 200_000; number++) {
            articles = new Article(number, articles);
        }
    }

    private static void beat() {
        try {
            while (true) {
                long from = System.nanoTime();
                List<String> few = new ArrayList<>();
                for (int n = 0; n < 20; n++) {
                    few.add("article " + n);
                }
                titles += few.size();
                Thread.sleep(PERIOD_MS);
                long to = System.nanoTime();
                if (to - from >= SLOW_NS) {
                    System.out.println("{\"from\": " + from + ", \"to\": " + to + "}");
                }
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void clean() {
        try {
            while (true) {
                Thread.sleep(260);
                collect();
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) {
        for (long count = 0; collect() < WANTED_NS && count < MOST; count += 200_000) {
            addArticles();
        }
        new Thread(Catalogue::beat, "heartbeat").start();
        new Thread(Catalogue::clean, "cleaner").start();
        System.out.println("{}");
    }
}
