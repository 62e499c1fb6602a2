import pytest

from tests.chaos import clean


@pytest.mark.parametrize("first", clean.CHUNKS)
@pytest.mark.parametrize("workload", clean.names(0))
def test_no_schedule_breaks_a_promise(workload: str, first: int) -> None:
    clean.assert_clean(workload, first)
