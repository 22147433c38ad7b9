import java.io.File;
import java.util.concurrent.Exchanger;

/**
 * A camera, which exchanges a full buffer for an empty one with "encoder" every 20 ms. When the file of
 * the argument appears, the encoder has a big picture to encode before it comes to the exchange.
 */
public final class Camera {
    private static final Exchanger<byte[]> exchanger = new Exchanger<>();
    private static byte[] buffer = new byte[1000];

    static void takePicture() throws Exception {
        buffer[0]++;
        buffer = exchanger.exchange(buffer);
    }

    static double encodePicture(double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9);
        double sum = 0;
        while (System.nanoTime() < end) {
            for (int n = 1; n < 10_000; n++) {
                sum += 1.0 / n;
            }
        }
        return sum;
    }

    static void encodePictures(String flag) throws Exception {
        byte[] picture = new byte[1000];
        while (true) {
            picture = exchanger.exchange(picture);
            Beat.sum += encodePicture(new File(flag).delete() ? 1.2 : 0.0001);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Beat.rhythm(Camera::takePicture);
        Beat.start("encoder", () -> encodePictures(arguments[0]));
        Beat.ready();
    }
}
