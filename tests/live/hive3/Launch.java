import java.io.File;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.Arrays;

/** Hive 3.1 asks the loader of its classes for their places, as Java 8's could say: one that can stands in for Java's own. */
public final class Launch {
  private Launch() {}

  public static void main(String[] arguments) throws Exception {
    String[] places = System.getProperty("java.class.path").split(File.pathSeparator);
    URL[] urls = Arrays.stream(places).map(Launch::url).toArray(URL[]::new);
    ClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader());
    Thread.currentThread().setContextClassLoader(loader);
    loader.loadClass("LiveHive").getMethod("main", String[].class).invoke(null, (Object) arguments);
  }

  private static URL url(String place) {
    try {
      return Path.of(place).toUri().toURL();
    } catch (MalformedURLException error) {
      throw new IllegalArgumentException(error);
    }
  }
}
