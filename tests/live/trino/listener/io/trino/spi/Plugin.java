package io.trino.spi;

import io.trino.spi.eventlistener.EventListenerFactory;

/** As much of Trino 476's interface as the listener is compiled against: its own class files need a newer compiler. */
public interface Plugin {
    Iterable<EventListenerFactory> getEventListenerFactories();
}
