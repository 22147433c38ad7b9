import java.io.File;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.Semaphore;
import java.util.concurrent.ThreadLocalRandom;

/**
 * A shop that answers two customers at a time (Semaphore), of forty. When the file of the argument appears,
 * "report-1" and "report-2" are those two, and compute. System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Permits {
    private static final int CUSTOMERS = 40;
    private static final long SLOW_NS = 100_000_000;
    private static final Semaphore permits = new Semaphore(2);
    static volatile long sum;

    static void serveCustomer() throws Exception {
        permits.acquire();
        sum++;
        permits.release();
    }

    static void sumYear() {
        long end = System.nanoTime() + 1_200_000_000, value = 7;
        while (System.nanoTime() < end) {
            for (int n = 0; n < 10_000; n++) {
                value = value * 6364136223846793005L + 1442695040888963407L;
            }
        }
        sum += value;
    }

    static void makeReport() {
        try {
            permits.acquire();
            sumYear();
            permits.release();
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void buy() {
        try {
            Path self = Files.readSymbolicLink(Path.of("/proc/thread-self"));
            String tid = self.getFileName().toString();
            while (true) {
                Thread.sleep(ThreadLocalRandom.current().nextInt(40, 300));
                long from = System.nanoTime();
                serveCustomer();
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

    private static void report(File flag) {
        try {
            while (!flag.exists()) {
                Thread.sleep(5);
            }
            makeReport();
            flag.delete();
            Thread.sleep(60_000);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        for (int customer = 0; customer < CUSTOMERS; customer++) {
            new Thread(Permits::buy, "customer-" + customer).start();
        }
        File flag = new File(arguments[0]);
        new Thread(() -> report(flag), "report-1").start();
        new Thread(() -> report(flag), "report-2").start();
        Thread.sleep(500);
        System.out.println("{}");
    }
}
