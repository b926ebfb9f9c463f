package io.trino.spi.eventlistener;

import java.util.Map;

/** As in Trino 476. */
public interface EventListenerFactory {
    String getName();

    EventListener create(Map<String, String> config, EventListenerContext context);

    interface EventListenerContext {}
}
