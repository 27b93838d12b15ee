"""The stages of recipes: a module defines one kind of stage and holds it as `STAGE`."""
