import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * Hangs of a Java program: a thread has a rhythm and measures it, another one is told to disturb
 * it.
 * A line on standard input begins the hang; a second one ends the program, which then prints the
 * longest beat. System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Hangs {
    private static final int PERIOD_MS = 20;
    private static final Object account = new Object();
    private static final ReentrantLock lock = new ReentrantLock();
    private static final ReentrantReadWriteLock readers = new ReentrantReadWriteLock();
    private static final ExecutorService pool = Executors.newFixedThreadPool(1);
    private static volatile long longestFrom;
    private static volatile long longestTo;
    private static volatile int result;
    private static List<Object> heap;

    interface Work {
        void run() throws Exception;
    }

    private static void start(String name, Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (Exception error) {
                error.printStackTrace();
            }
        }, name);
        thread.setDaemon(true);
        thread.start();
    }

    /** Repeats an operation, and remembers the longest. */
    private static void beat(Work operation) throws Exception {
        while (true) {
            long from = System.nanoTime();
            operation.run();
            Thread.sleep(PERIOD_MS);
            long to = System.nanoTime();
            if (to - from > longestTo - longestFrom) {
                longestTo = to;
                longestFrom = from;
            }
        }
    }

    static void deposit() {
        synchronized (account) {
            result++;
        }
    }

    static void depositWithLock() {
        lock.lock();
        try {
            result++;
        } finally {
            lock.unlock();
        }
    }

    static void depositAsWriter() {
        readers.writeLock().lock();
        try {
            result++;
        } finally {
            readers.writeLock().unlock();
        }
    }

    static void enqueue() throws Exception {
        pool.submit(() -> result++).get();
    }

    /** What the heartbeat repeats. */
    private static Work operation(String hang) {
        switch (hang) {
            case "reentrant":
                return Hangs::depositWithLock;
            case "readers":
                return Hangs::depositAsWriter;
            case "pool":
                return Hangs::enqueue;
            default:
                return Hangs::deposit;
        }
    }

    /** Computes for about the given time, and looks at the clock now and then. */
    static int computeInterest(long milliseconds) {
        long end = System.nanoTime() + milliseconds * 1_000_000;
        int sum = 0;
        while (System.nanoTime() < end) {
            for (int n = 1; n < 10_000; n++) {
                sum += n % 7 * sum;
            }
        }
        return sum;
    }

    /** A counted loop: without `UseCountedLoopSafepoints` it never stops for the others. */
    static int sumWithoutSafepoint(int count) {
        int sum = 1;
        for (int n = 1; n < count; n++) {
            sum += n % 7 * sum + n / (sum | 1);
        }
        return sum;
    }

    /** Has everything compiled, so that the compiled methods have names. */
    private static void prepare(String hang) throws Exception {
        result += computeInterest(500);
        if (hang.equals("collection")) {
            heap = new ArrayList<>();
            for (int n = 0; n < 15_000_000; n++) {
                heap.add(new Object[] {n % 1000 == 0 ? heap : null, null});
            }
            System.gc();
        }
        if (hang.equals("safepoint")) {
            for (int n = 0; n < 20_000; n++) {
                result += sumWithoutSafepoint(1000);
            }
        }
    }

    private static void disturb(String hang) throws Exception {
        switch (hang) {
            case "monitor":
                synchronized (account) {
                    result += computeInterest(1200);
                }
                break;
            case "reentrant":
                lock.lock();
                try {
                    result += computeInterest(1200);
                } finally {
                    lock.unlock();
                }
                break;
            case "readers":
                readers.readLock().lock();
                try {
                    Thread.sleep(1200);
                } finally {
                    readers.readLock().unlock();
                }
                break;
            case "pool":
                pool.submit(() -> computeInterest(1200));
                break;
            case "collection":
                for (int n = 0; n < heap.size(); n += 3) {
                    heap.set(n, new Object[] {null, null});
                }
                System.gc();
                break;
            case "safepoint":
                start("collects", () -> {
                    Thread.sleep(50);
                    System.gc();
                });
                result += sumWithoutSafepoint(250_000_000);
                break;
            default:
                throw new IllegalArgumentException(hang);
        }
    }

    public static void main(String[] arguments) throws Exception {
        String hang = arguments[0];
        prepare(hang);
        pool.submit(() -> result++).get();
        start("heartbeat", () -> beat(operation(hang)));
        Object told = new Object();
        start("disturber", () -> {
            synchronized (told) {
                told.wait();
            }
            disturb(hang);
        });
        Thread.sleep(500);
        longestTo = longestFrom;
        System.out.println("ready");
        System.in.read();
        synchronized (told) {
            told.notify();
        }
        System.in.read();
        System.out.println("{\"from\":" + longestFrom + ",\"to\":" + longestTo + "}");
    }
}
