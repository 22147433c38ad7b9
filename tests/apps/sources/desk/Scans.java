/**
 * A program that computes checksums in C. "heartbeat" allocates some memory every 20 ms. When the file of
 * the second argument appears, "scanner" computes that of a big picture, and has its array to itself
 * meanwhile (GetPrimitiveArrayCritical): no garbage can be collected. The first argument is the library.
 */
public final class Scans {
    private static byte[] page;

    static native int checksum(byte[] picture, double seconds);

    static void readPage() {
        for (int n = 0; n < 40; n++) {
            page = new byte[20_000];
        }
    }

    static void scanPicture() {
        Beat.sum += checksum(new byte[1000], 1.4);
    }

    public static void main(String[] arguments) throws Exception {
        System.load(arguments[0]);
        Beat.rhythm(Scans::readPage);
        Beat.start("scanner", () -> {
            while (true) {
                Beat.waitFor(arguments[1]);
                scanPicture();
            }
        });
        Beat.ready();
    }
}
