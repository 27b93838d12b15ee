"""Events as values: the catalogue, what a handler receives, how people read them."""
