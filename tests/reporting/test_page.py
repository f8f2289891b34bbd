"""The page is one whole file: nothing in it can be fetched, nothing a user named can become markup."""

from __future__ import annotations

import json
import re
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelon.reporting import page
from echelon.reporting.page import render, script_safe


@given(
    st.recursive(
        st.text() | st.none() | st.integers(-9, 9), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_data_come_back_as_they_were_and_cannot_end_their_element(value: object) -> None:
    text = script_safe(value)
    assert json.loads(text) == value
    assert not set("<>&\u2028\u2029") & set(text)


def test_every_asset_is_on_the_page_and_none_is_fetched() -> None:
    text = render("</title><script>alert(1)</script>", []).decode()
    assert "<script>alert" not in text
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", text)
    used = {"page.html.jinja", *page._STYLES, *page._SCRIPTS}
    assert {f.name for f in (files("echelon.reporting") / "assets").iterdir()} == used


def test_a_page_that_would_be_too_large_is_refused() -> None:
    run = {
        "id": "run1",
        "kind": "dataset",
        "name": "n",
        "tables": [],
        "verdicts": [],
        "facts": [],
        "lines": ["x" * 6_000_000],
    }
    with pytest.raises(ValueError, match=r"the page would have 6\.\d MB, more than 5; give fewer runs"):
        render("large", [run])
