/** Starts Trino's server without its own starter, which is not on Maven Central; by name, as older compilers cannot read it. */
public final class StartTrino {
    public static void main(String[] version) throws Exception {
        Class<?> server = Class.forName("io.trino.server.Server");
        server.getMethod("start", String.class).invoke(server.getConstructor().newInstance(), version[0]);
    }
}
