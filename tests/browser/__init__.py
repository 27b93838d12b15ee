import pytest

pytest.register_assert_rewrite("tests.browser.reader")  # so that it says what it saw
