import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;

/** A web server of the JDK. It has no executor, so the thread that dispatches makes all pages. */
public final class Reports {
    static void renderReport() {
        long end = System.nanoTime() + 1_200_000_000L;
        while (System.nanoTime() < end) {
            for (int n = 1; n < 10_000; n++) {
                Beat.sum += Math.sqrt(n);
            }
        }
    }

    static void answer(HttpExchange exchange) throws IOException {
        if (exchange.getRequestURI().getPath().equals("/report")) {
            renderReport();
        }
        byte[] page = "page".getBytes(StandardCharsets.UTF_8);
        exchange.sendResponseHeaders(200, page.length);
        exchange.getResponseBody().write(page);
        exchange.close();
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", Reports::answer);
        server.start();
    }
}
