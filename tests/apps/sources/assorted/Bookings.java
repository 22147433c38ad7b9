import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.net.Socket;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;

/**
 * A pool of one connection to a service. "heartbeat" borrows it every 20 ms for a short question. When
 * the file of the second argument appears, "night-report" borrows it for one that is answered late.
 */
public final class Bookings {
    private static final BlockingQueue<Connection> pool = new ArrayBlockingQueue<>(1);

    static final class Connection {
        private final Socket socket;
        private final BufferedReader answers;

        Connection(int port) throws Exception {
            socket = new Socket("127.0.0.1", port);
            socket.setTcpNoDelay(true);
            answers = new BufferedReader(new InputStreamReader(socket.getInputStream()));
        }

        String ask(String question) throws Exception {
            socket.getOutputStream().write((question + "\n").getBytes());
            return answers.readLine();
        }
    }

    static void bookTable() throws Exception {
        Connection connection = pool.take();
        connection.ask("table");
        pool.put(connection);
    }

    static void makeNightReport() throws Exception {
        Connection connection = pool.take();
        connection.ask("report");
        pool.put(connection);
    }

    public static void main(String[] arguments) throws Exception {
        pool.put(new Connection(Integer.parseInt(arguments[0])));
        Beat.rhythm(Bookings::bookTable);
        Beat.start("night-report", () -> {
            Beat.waitFor(arguments[1]);
            makeNightReport();
            Thread.sleep(60_000);
        });
        Beat.ready();
    }
}
