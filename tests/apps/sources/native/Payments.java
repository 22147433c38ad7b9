import java.io.File;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * Payments, all of which one thread "payments" works off: the thread "heartbeat" has one booked every
 * 20 ms. When the file of the argument appears, a payment hands its second half to the same executor,
 * and waits for that, which cannot begin; it gives up after a while.
 * System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Payments {
    private static final int PERIOD_MS = 20;
    private static final long SLOW_NS = 100_000_000;
    private static final ExecutorService executor =
            Executors.newSingleThreadExecutor(work -> new Thread(work, "payments"));
    private static volatile int booked;

    static int book() {
        return ++booked;
    }

    static void bookPayment() throws Exception {
        executor.submit(Payments::book).get();
    }

    static int checkFraud() {
        return 0;
    }

    static int chargeCard() throws Exception {
        try {
            return executor.submit(Payments::checkFraud).get(1200, TimeUnit.MILLISECONDS);
        } catch (TimeoutException error) {
            return -1;
        }
    }

    private static void beat() {
        try {
            while (true) {
                long from = System.nanoTime();
                bookPayment();
                long to = System.nanoTime();
                if (to - from >= SLOW_NS) {
                    System.out.println("{\"from\": " + from + ", \"to\": " + to + "}");
                }
                Thread.sleep(PERIOD_MS);
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        File flag = new File(arguments[0]);
        for (int n = 0; n < 20_000; n++) {
            bookPayment();
        }
        new Thread(Payments::beat, "heartbeat").start();
        Thread.sleep(500);
        System.out.println("{}");
        while (!flag.delete()) {
            Thread.sleep(10);
        }
        executor.submit(Payments::chargeCard);
    }
}
