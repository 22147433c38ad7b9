import java.net.InetAddress;

/**
 * A program that looks the address of a warehouse up every 20 ms, which Java keeps for good. When the file of the
 * argument appears, "planner" looks for another warehouse, which is known to nobody yet, and a little later all
 * others look for that one, too. Java has one thread at a time look a name up.
 */
public final class Warehouses {
    private static volatile String warehouse = "north.example";

    private Warehouses() {}

    static void lookUpWarehouse() throws Exception {
        Beat.sum += InetAddress.getByName(warehouse).getAddress()[0];
    }

    static void planWarehouse() throws Exception {
        InetAddress.getByName("south.example");
    }

    static void moveSoon() throws Exception {
        Thread.sleep(150);
        warehouse = "south.example";
    }

    public static void main(String[] arguments) throws Exception {
        java.security.Security.setProperty("networkaddress.cache.ttl", "-1");
        Beat.rhythm(Warehouses::lookUpWarehouse);
        Beat.start("planner", () -> {
            Beat.waitFor(arguments[0]);
            Beat.start("mover", Warehouses::moveSoon);
            planWarehouse();
            Thread.sleep(60_000);
        });
        Beat.ready();
    }
}
