import io.trino.spi.Plugin;
import io.trino.spi.eventlistener.EventListener;
import io.trino.spi.eventlistener.EventListenerFactory;
import java.util.List;
import java.util.Map;

/** Trino's own HTTP event listener under a newer Trino: only the signature by which a listener is made differs. */
public final class HttpListener implements Plugin, EventListenerFactory {
    private static final String TRINOS = "io.trino.plugin.httpquery.HttpEventListenerFactory";

    @Override
    public Iterable<EventListenerFactory> getEventListenerFactories() {
        return List.of(this);
    }

    @Override
    public String getName() {
        return "http-of-old";
    }

    @Override
    public EventListener create(Map<String, String> config, EventListenerContext context) {
        try {
            Class<?> factory = Class.forName(TRINOS);
            Object made = factory.getConstructor().newInstance();
            return (EventListener) factory.getMethod("create", Map.class).invoke(made, config);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(error);
        }
    }
}
