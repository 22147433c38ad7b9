/**
 * A buffet with room for three meals. "heartbeat" takes one every 20 ms, and waits if there is none (Object.wait).
 * "cook" cooks them. When the file of the argument appears, the next one takes it long.
 */
public final class Buffet {
    private static final Object TABLE = new Object();
    private static int meals;
    private static volatile boolean feast;

    private Buffet() {}

    static void takeMeal() throws InterruptedException {
        synchronized (TABLE) {
            while (meals == 0) {
                TABLE.wait();
            }
            meals--;
            TABLE.notifyAll();
        }
    }

    static void serveMeal() throws InterruptedException {
        synchronized (TABLE) {
            while (meals == 3) {
                TABLE.wait();
            }
            meals++;
            TABLE.notifyAll();
        }
    }

    static void cookFeast() {
        for (long end = System.nanoTime() + 1_200_000_000L; System.nanoTime() < end;) {
            Beat.sum += Math.sqrt(end);
        }
    }

    static void cook() throws InterruptedException {
        while (true) {
            if (feast) {
                feast = false;
                cookFeast();
            }
            serveMeal();
        }
    }

    public static void main(String[] arguments) throws Exception {
        Beat.start("cook", Buffet::cook);
        Beat.rhythm(Buffet::takeMeal);
        Beat.ready();
        Beat.waitFor(arguments[0]);
        feast = true;
    }
}
