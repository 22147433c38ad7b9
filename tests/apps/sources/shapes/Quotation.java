import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A quotation is put together once, when a line is on standard input: four threads price an article
 * each, and main waits for all. One article has very many options, so its thread computes for long.
 * System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Quotation {
    private static final AtomicInteger number = new AtomicInteger();
    private static volatile long priced;

    static long priceArticle(int article, double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9), price = article;
        while (System.nanoTime() < end) {
            for (int n = 0; n < 10_000; n++) {
                price = price * 6364136223846793005L + 1442695040888963407L;
            }
        }
        return price;
    }

    /** What a program does before and after: it reads its settings, and formats a few things. */
    private static void workALittle(int step) throws Exception {
        for (String line : Files.readAllLines(Path.of("/etc/passwd"))) {
            priced += String.format("%s %d", line, step).hashCode();
        }
        priced += priceArticle(step, 0.002 * (step % 5));
        Thread.sleep(13 * (step * 7 % 11));
    }

    private static void putTogether(ExecutorService pool) throws Exception {
        List<Future<Long>> prices = new ArrayList<>();
        for (int article = 0; article < 4; article++) {
            int one = article;
            prices.add(pool.submit(() -> priceArticle(one, one == 2 ? 1.3 : 0.01)));
        }
        for (Future<Long> price : prices) {
            priced += price.get();
        }
    }

    public static void main(String[] arguments) throws Exception {
        String[] self = Files.readSymbolicLink(Path.of("/proc/thread-self")).toString().split("/");
        System.out.println("{\"pid\": " + self[0] + ", \"tid\": " + self[2] + "}");
        int step = 0;
        while (System.in.available() == 0) {
            workALittle(step++);
        }
        ExecutorService pool = Executors.newFixedThreadPool(
                4, work -> new Thread(work, "pricing-" + number.incrementAndGet()));
        long from = System.nanoTime();
        System.out.println("{\"from\": " + from + "}");
        putTogether(pool);
        System.out.println("{\"from\": " + from + ", \"to\": " + System.nanoTime() + "}");
        while (true) {
            workALittle(step++);
        }
    }
}
