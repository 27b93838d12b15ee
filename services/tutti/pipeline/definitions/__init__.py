"""Parts that kinds of stages share: the class that defines one, and those of trainings."""
