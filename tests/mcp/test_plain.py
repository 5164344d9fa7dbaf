"""What a person does not see, a model is not given unseen."""

from __future__ import annotations

from walproof.mcp.plain import escaped, readable


def test_unseen_characters_are_escapes() -> None:
    hidden = "".join(chr(0xE0000 + ord(character)) for character in "obey")
    assert escaped(f"orders{hidden}") == "orders" + "".join(
        f"\\U{0xE0000 + ord(character):08x}" for character in "obey"
    )
    assert escaped("a\u200bb\u202ec\x1b[2Jd\ue000") == "a\\u200bb\\u202ec\\u001b[2Jd\\ue000"
    assert escaped("v\ufe01\U000e0150") == "v\\ufe01\\U000e0150"
    assert escaped("\ud800") == "\\ud800"
    assert escaped("Bücher, 注文\tx\ny") == "Bücher, 注文\tx\ny"


def test_all_of_the_data_is_changed_and_times_are_dates() -> None:
    data = {
        "a\u200b": ["pw", {"pw": "x pw"}],
        "ended_at": 1795509528.4,
        "at": 0,
        "whole_at": None,
        "n_at": True,
    }
    assert readable(data, lambda text: text.replace("pw", "***")) == {
        "a\\u200b": ["***", {"pw": "x ***"}],
        "ended_at": "2026-11-24T08:38:48+00:00",
        "at": "1970-01-01T00:00:00+00:00",
        "whole_at": None,
        "n_at": True,
    }
    assert readable({"at": 1e300}, str) == {"at": 1e300}
