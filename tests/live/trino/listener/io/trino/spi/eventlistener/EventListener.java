package io.trino.spi.eventlistener;

/** As in Trino 476. */
public interface EventListener {}
