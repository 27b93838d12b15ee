"""Events on their way: outbox, relay, consumer, inbox, dead letters."""
