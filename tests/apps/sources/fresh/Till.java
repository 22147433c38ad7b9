import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import javax.servlet.http.HttpServletRequest;
import javax.servlet.http.HttpServletResponse;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.handler.AbstractHandler;

/**
 * A till in Jetty that does everything in synchronized blocks. One page is a report, which takes long; it
 * says which thread made it.
 */
public final class Till extends AbstractHandler {
    private final Object till = new Object();
    private long sold;

    private long sell() {
        synchronized (till) {
            return ++sold;
        }
    }

    private void printReport() {
        synchronized (till) {
            for (long end = System.nanoTime() + 1_200_000_000L; System.nanoTime() < end;) {
                for (int n = 0; n < 10_000; n++) {
                    sold = (sold * 31 + n) % 1_000_003;
                }
            }
        }
    }

    @Override
    public void handle(String page, Request request, HttpServletRequest asked, HttpServletResponse answer)
            throws IOException {
        if (page.equals("/report")) {
            printReport();
            answer.getWriter().print(Files.readSymbolicLink(Path.of("/proc/thread-self")).getFileName());
        } else {
            answer.getWriter().print(sell());
        }
        request.setHandled(true);
    }

    public static void main(String[] arguments) throws Exception {
        Server server = new Server(new InetSocketAddress("127.0.0.1", Integer.parseInt(arguments[0])));
        server.setHandler(new Till());
        server.start();
        server.join();
    }
}
