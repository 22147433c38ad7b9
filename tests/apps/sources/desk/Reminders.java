import java.util.Timer;
import java.util.TimerTask;
import java.util.concurrent.CountDownLatch;

/**
 * A program with one timer, whose thread is "reminders". "heartbeat" has it remind of something every
 * 20 ms, and waits for that. When the file of the argument appears, "calendar" has it sort the year.
 */
public final class Reminders {
    private static final Timer timer = new Timer("reminders", true);

    static TimerTask task(Runnable body) {
        return new TimerTask() {
            @Override
            public void run() {
                body.run();
            }
        };
    }

    static void waitForReminder() throws Exception {
        CountDownLatch reminded = new CountDownLatch(1);
        timer.schedule(task(reminded::countDown), 1);
        reminded.await();
    }

    static void sortYear() {
        long end = System.nanoTime() + 1_300_000_000;
        while (System.nanoTime() < end) {
            for (int n = 1; n < 10_000; n++) {
                Beat.sum += 1.0 / n;
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Beat.rhythm(Reminders::waitForReminder);
        Beat.start("calendar", () -> {
            while (true) {
                Beat.waitFor(arguments[0]);
                timer.schedule(task(Reminders::sortYear), 1);
            }
        });
        Beat.ready();
    }
}
