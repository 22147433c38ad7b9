import java.util.concurrent.locks.StampedLock;

/**
 * A ledger with a StampedLock. "heartbeat" reads its total every 20 ms. When the file of the argument
 * appears, "bookkeeper" closes the year with the lock for writing.
 */
public final class Ledger {
    private static final StampedLock lock = new StampedLock();
    private static volatile long total;

    static void readTotal() {
        long stamp = lock.readLock();
        Beat.sum += total;
        lock.unlockRead(stamp);
    }

    static long addEntries(double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9), sum = 0;
        while (System.nanoTime() < end) {
            for (int n = 0; n < 10_000; n++) {
                sum = sum * 6364136223846793005L + 1442695040888963407L;
            }
        }
        return sum;
    }

    static void closeYear() {
        long stamp = lock.writeLock();
        total += addEntries(1.3);
        lock.unlockWrite(stamp);
    }

    public static void main(String[] arguments) throws Exception {
        Beat.rhythm(Ledger::readTotal);
        Beat.start("bookkeeper", () -> {
            while (true) {
                Beat.waitFor(arguments[0]);
                closeYear();
            }
        });
        Beat.ready();
    }
}
