/**
 * A program with a class loader for its plugins, which loads one class at a time (it is not registered
 * as parallel capable). When the file of the argument appears, the thread "updater" loads a plugin that
 * has to be fetched first.
 */
public final class Plugins {
    static final class PluginLoader extends ClassLoader {
        @Override
        protected Class<?> findClass(String name) throws ClassNotFoundException {
            fetchPlugin();
            throw new ClassNotFoundException(name);
        }

        private static void fetchPlugin() {
            try {
                Thread.sleep(1200);
            } catch (InterruptedException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    private static final ClassLoader plugins = new PluginLoader();

    static void runCommand() throws Exception {
        plugins.loadClass("java.util.ArrayList");
    }

    static void updatePlugins() {
        try {
            plugins.loadClass("com.example.Spelling");
        } catch (ClassNotFoundException error) {
            // It could not be fetched.
        }
    }

    public static void main(String[] arguments) throws Exception {
        Beat.rhythm(Plugins::runCommand);
        Beat.start("updater", () -> {
            Beat.waitFor(arguments[0]);
            updatePlugins();
            Thread.sleep(60_000);
        });
        Beat.ready();
    }
}
