import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A warehouse, of whose 60 pickers each takes something from the stock every now and then. When the
 * file of the argument appears, the thread "stocktaking" counts everything with the stock's monitor.
 * System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Warehouse {
    private static final int PICKERS = 60;
    private static final long SLOW_NS = 100_000_000;
    private static final Object stock = new Object();
    private static volatile long taken;

    static void takeArticle() {
        synchronized (stock) {
            taken++;
        }
    }

    static long countShelves(double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9), count = 0;
        while (System.nanoTime() < end) {
            for (int n = 0; n < 10_000; n++) {
                count = count * 6364136223846793005L + 1442695040888963407L;
            }
        }
        return count;
    }

    private static void pick() {
        try {
            Path self = Files.readSymbolicLink(Path.of("/proc/thread-self"));
            String tid = self.getFileName().toString();
            while (true) {
                Thread.sleep(ThreadLocalRandom.current().nextInt(40, 300));
                long from = System.nanoTime();
                takeArticle();
                long to = System.nanoTime();
                if (to - from >= SLOW_NS) {
                    System.out.println(
                            "{\"from\": " + from + ", \"to\": " + to + ", \"tid\": " + tid + "}");
                }
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    private static void takeStock(File flag) {
        try {
            while (!flag.delete()) {
                Thread.sleep(10);
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
        synchronized (stock) {
            taken += countShelves(1.3);
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int picker = 0; picker < PICKERS; picker++) {
            new Thread(Warehouse::pick, "picker-" + picker).start();
        }
        File flag = new File(arguments[0]);
        Thread counting = new Thread(() -> takeStock(flag), "stocktaking");
        counting.start();
        Thread.sleep(500);
        System.out.println("{}");
        counting.join();
    }
}
