import java.lang.ref.Cleaner;
import java.util.concurrent.Semaphore;

/**
 * An editor that has one draft at a time, and opens the next one every 20 ms. A draft is closed when the
 * collector has found that nobody uses it any more (Cleaner). When the file of the argument appears, it takes
 * long to close one.
 */
public final class Drafts {
    private static final Cleaner CLEANER = Cleaner.create();
    private static final Semaphore FREE = new Semaphore(1);
    private static volatile boolean big;

    private Drafts() {
        CLEANER.register(this, Drafts::closeDraft);
    }

    static void openDraft() throws InterruptedException {
        FREE.acquire();
        new Drafts();
        System.gc();
    }

    static void closeDraft() {
        if (big) {
            big = false;
            saveText();
        }
        FREE.release();
    }

    static void saveText() {
        for (long end = System.nanoTime() + 1_200_000_000L; System.nanoTime() < end;) {
            Beat.sum += Math.sqrt(end);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Beat.rhythm(Drafts::openDraft);
        Beat.ready();
        Beat.waitFor(arguments[0]);
        big = true;
    }
}
