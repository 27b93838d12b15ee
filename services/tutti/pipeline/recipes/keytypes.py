"""Types of the keys of recipes."""

from typing import Annotated

from pydantic import Field

Count = Annotated[int, Field(ge=0, lt=2**31)]
Positive = Annotated[int, Field(ge=1, lt=2**31)]
Seed = Annotated[int, Field(ge=0, lt=2**53)]
LONGEST = 16 << 10
"""Characters of a text in a recipe, or of a file that a key names."""
Names = Annotated[list[Annotated[str, Field(min_length=1, max_length=100)]], Field(max_length=100)]
Urls = Annotated[list[Annotated[str, Field(min_length=1, max_length=2000)]], Field(max_length=1000)]
Prompts = Annotated[list[Annotated[str, Field(max_length=16_384)]], Field(max_length=64)]
