import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * A database within the program (HSQLDB), whose transactions lock tables. "heartbeat" reads an invoice every 20 ms.
 * When the file of the argument appears, "year-end" changes one, and computes before it commits.
 */
public final class Ledger {
    private Ledger() {}

    static Connection connect() throws SQLException {
        return DriverManager.getConnection("jdbc:hsqldb:mem:ledger", "SA", "");
    }

    static void run(Connection ledger, String statement) throws SQLException {
        try (Statement any = ledger.createStatement()) {
            any.execute(statement);
        }
    }

    static void showInvoice(Connection ledger) throws SQLException {
        try (Statement select = ledger.createStatement();
                ResultSet rows = select.executeQuery("select amount from invoices where id = 7")) {
            rows.next();
            Beat.sum += rows.getInt(1);
        }
    }

    static void sumInvoices() {
        for (long end = System.nanoTime() + 1_200_000_000L; System.nanoTime() < end;) {
            Beat.sum += Math.sqrt(end);
        }
    }

    static void closeYear(Connection ledger) throws SQLException {
        ledger.setAutoCommit(false);
        run(ledger, "update invoices set amount = 0 where id = 8");
        sumInvoices();
        ledger.commit();
    }

    public static void main(String[] arguments) throws Exception {
        Connection reads = connect();
        Connection writes = connect();
        run(reads, "create table invoices (id int primary key, amount int)");
        run(reads, "insert into invoices values (7, 108), (8, 109)");
        Beat.rhythm(() -> showInvoice(reads));
        Beat.start("year-end", () -> {
            Beat.waitFor(arguments[0]);
            closeYear(writes);
            Thread.sleep(60_000);
        });
        Beat.ready();
    }
}
