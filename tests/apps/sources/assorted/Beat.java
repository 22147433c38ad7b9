import java.io.File;

/** What the programs in Java have in common. System.nanoTime() is CLOCK_MONOTONIC. */
final class Beat {
    private static final int PERIOD_MS = 20;
    private static final long SLOW_NS = 100_000_000;
    static volatile double sum;

    private Beat() {}

    interface Work {
        void run() throws Exception;
    }

    static void start(String name, Work work) {
        new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }, name).start();
    }

    /** Repeats the operation every 20 ms, and prints when it was slow. */
    static void rhythm(Work operation) {
        start("heartbeat", () -> {
            while (true) {
                long from = System.nanoTime();
                operation.run();
                long to = System.nanoTime();
                if (to - from >= SLOW_NS) {
                    System.out.println("{\"from\": " + from + ", \"to\": " + to + "}");
                }
                Thread.sleep(PERIOD_MS);
            }
        });
    }

    static void waitFor(String flag) throws Exception {
        File file = new File(flag);
        while (!file.delete()) {
            Thread.sleep(10);
        }
    }

    static void ready() throws Exception {
        Thread.sleep(500);
        System.out.println("{}");
    }
}
