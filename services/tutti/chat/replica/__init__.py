"""A replica: a process that generates tokens with one model. It sees token ids, never texts."""
