import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.File;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.util.concurrent.Executors;

/**
 * A service with a pool of four threads, all of which need the monitor of the shelves. When the file
 * of the second argument appears, the thread "stocktaking" computes with that.
 */
public final class Shelves {
    private static final Object shelves = new Object();
    private static volatile long articles;

    static long countShelves(double seconds) {
        long end = System.nanoTime() + (long) (seconds * 1e9), count = 0;
        while (System.nanoTime() < end) {
            for (int n = 0; n < 10_000; n++) {
                count = count * 6364136223846793005L + 1442695040888963407L;
            }
        }
        return count;
    }

    private static void showShelf(HttpExchange exchange) throws IOException {
        byte[] page;
        synchronized (shelves) {
            page = ("articles: " + articles++).getBytes();
        }
        exchange.sendResponseHeaders(200, page.length);
        exchange.getResponseBody().write(page);
        exchange.close();
    }

    private static void takeStock(File flag) {
        try {
            while (!flag.delete()) {
                Thread.sleep(10);
            }
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
        synchronized (shelves) {
            articles += countShelves(1.7);
        }
    }

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[0]);
        File flag = new File(arguments[1]);
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", port), 0);
        server.createContext("/", Shelves::showShelf);
        server.setExecutor(Executors.newFixedThreadPool(4));
        new Thread(() -> takeStock(flag), "stocktaking").start();
        server.start();
    }
}
