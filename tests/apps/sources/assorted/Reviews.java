import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;

/**
 * A shop that does everything in the common pool (CompletableFuture.supplyAsync). When the file of the
 * argument appears, reviews are fetched there, by calls that block.
 */
public final class Reviews {
    /** The result comes to a listener, as in a program whose calls are asynchronous. */
    static void showPrice() throws InterruptedException {
        CountDownLatch shown = new CountDownLatch(1);
        CompletableFuture.supplyAsync(() -> 7).thenRun(shown::countDown);
        shown.await();
    }

    static int fetchReview() {
        try {
            Thread.sleep(1200);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
        return 5;
    }

    public static void main(String[] arguments) throws Exception {
        Beat.rhythm(Reviews::showPrice);
        for (int n = 0; n < 50; n++) {
            // Both threads of the pool are there.
            CompletableFuture.runAsync(Reviews::nap);
            CompletableFuture.runAsync(Reviews::nap);
            nap();
        }
        Beat.ready();
        Beat.waitFor(arguments[0]);
        CompletableFuture.supplyAsync(Reviews::fetchReview);
        CompletableFuture.supplyAsync(Reviews::fetchReview);
        Thread.sleep(60_000);
    }

    private static void nap() {
        try {
            Thread.sleep(2);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }
}
