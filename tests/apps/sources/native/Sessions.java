import java.util.ArrayList;
import java.util.List;

/**
 * A server with a million of sessions: the thread "heartbeat" looks some up every 20 ms, and measures
 * that with the pause. Somebody else has a heap dump written.
 * System.nanoTime() is CLOCK_MONOTONIC.
 */
public final class Sessions {
    private static final int PERIOD_MS = 20;
    private static final long SLOW_NS = 100_000_000;
    private static final List<Object> sessions = new ArrayList<>();
    private static volatile int found;

    static void lookUpSessions() {
        for (int n = 0; n < 1000; n++) {
            found += sessions.get(n * 997 % sessions.size()).hashCode();
        }
    }

    private static void beat() {
        try {
            while (true) {
                long from = System.nanoTime();
                lookUpSessions();
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

    public static void main(String[] arguments) throws Exception {
        for (int n = 0; n < 1_500_000; n++) {
            sessions.add(new Object[] {new int[4], Integer.toString(n), null});
        }
        System.gc();
        new Thread(Sessions::beat, "heartbeat").start();
        Thread.sleep(500);
        System.out.println("{}");
    }
}
