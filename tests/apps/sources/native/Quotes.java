import java.io.File;

/**
 * The thread "heartbeat" quotes a price every 20 ms. When the file of the argument appears, the thread
 * "first-order" is the first that needs the class of the tariffs, whose static initializer takes long;
 * then "heartbeat" needs it, too. System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Quotes {
    private static final int PERIOD_MS = 20;
    private static final long SLOW_NS = 100_000_000;
    private static volatile boolean begun;
    private static volatile int quoted;

    static final class Tariffs {
        static int rate;

        static {
            begun = true;
            rate = loadTariffs();
        }

        /** Asks a service far away. */
        static int loadTariffs() {
            try {
                Thread.sleep(1200);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
            return 7;
        }
    }

    static void quotePrice() {
        if (begun) {
            quoted += Tariffs.rate;
        } else {
            quoted++;
        }
    }

    private static void beat() {
        try {
            while (true) {
                long from = System.nanoTime();
                quotePrice();
                long to = System.nanoTime();
                if (to - from >= SLOW_NS) {
                    System.out.println("{\"from\": " + from + ", \"to\": " + to + "}");
                }
                Thread.sleep(PERIOD_MS);
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static void order(File flag) {
        try {
            while (!flag.delete()) {
                Thread.sleep(10);
            }
            quoted += Tariffs.rate;
            // Whoever asks what this thread did wants it to be there.
            Thread.sleep(60_000);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    public static void main(String[] arguments) throws Exception {
        File flag = new File(arguments[0]);
        new Thread(Quotes::beat, "heartbeat").start();
        new Thread(() -> order(flag), "first-order").start();
        Thread.sleep(500);
        System.out.println("{}");
    }
}
