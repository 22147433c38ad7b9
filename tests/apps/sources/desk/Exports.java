import java.io.FileOutputStream;
import java.util.logging.Logger;
import java.util.logging.SimpleFormatter;
import java.util.logging.StreamHandler;

/**
 * A program whose log (java.util.logging) goes into the pipe of the first argument. "heartbeat" logs a
 * line every 20 ms. When the file of the second argument appears, "exporter" logs all that it exports, as
 * one record that is longer than the pipe.
 */
public final class Exports {
    private static final Logger log = Logger.getLogger("exports");

    static void logVisit() {
        log.info("a visit");
    }

    static void logExport() {
        log.info("article ".repeat(60_000));
    }

    public static void main(String[] arguments) throws Exception {
        FileOutputStream pipe = new FileOutputStream(arguments[0]);
        log.setUseParentHandlers(false);
        log.addHandler(new StreamHandler(pipe, new SimpleFormatter()));
        Beat.rhythm(Exports::logVisit);
        Beat.start("exporter", () -> {
            while (true) {
                Beat.waitFor(arguments[1]);
                logExport();
            }
        });
        Beat.ready();
    }
}
