import java.io.File;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Two accounts with a lock each: the thread "heartbeat" deposits on the first one every 20 ms. When the
 * file of the argument appears, the thread "transfer" locks the first account and then the second one,
 * and "refund" the other way round. "transfer" gives up after a while.
 * System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Transfers {
    private static final int PERIOD_MS = 20;
    private static final long SLOW_NS = 100_000_000;
    private static final ReentrantLock first = new ReentrantLock();
    private static final ReentrantLock second = new ReentrantLock();
    private static volatile boolean now;
    private static volatile int balance;

    interface Work {
        void run() throws Exception;
    }

    static void deposit() {
        first.lock();
        balance++;
        first.unlock();
    }

    static void transferMoney() throws Exception {
        first.lock();
        Thread.sleep(50);
        if (second.tryLock(1200, TimeUnit.MILLISECONDS)) {
            second.unlock();
        }
        first.unlock();
    }

    static void refundMoney() throws Exception {
        second.lock();
        Thread.sleep(50);
        first.lock();
        first.unlock();
        second.unlock();
    }

    private static void beat() throws Exception {
        while (true) {
            long from = System.nanoTime();
            deposit();
            long to = System.nanoTime();
            if (to - from >= SLOW_NS) {
                System.out.println("{\"from\": " + from + ", \"to\": " + to + "}");
            }
            Thread.sleep(PERIOD_MS);
        }
    }

    private static void when(Work work) throws Exception {
        while (!now) {
            Thread.sleep(1);
        }
        work.run();
        Thread.sleep(60_000);
    }

    private static void start(String name, Work work) {
        new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        }, name).start();
    }

    public static void main(String[] arguments) throws Exception {
        File flag = new File(arguments[0]);
        for (int n = 0; n < 20_000; n++) {
            deposit();
        }
        start("heartbeat", Transfers::beat);
        start("transfer", () -> when(Transfers::transferMoney));
        start("refund", () -> when(Transfers::refundMoney));
        Thread.sleep(500);
        System.out.println("{}");
        while (!flag.delete()) {
            Thread.sleep(10);
        }
        now = true;
    }
}
