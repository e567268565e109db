"""Generated text is current, and blocks are filled without touching hand-written text."""

import pytest

from rle import cards, gen
from rle.errors import UserError


def test_everything_generated_is_current():
    assert [str(p.relative_to(gen.root())) for p in gen.check()] == []


def test_blocks_are_replaced_and_the_rest_stays():
    text = "why\n<!-- generated: card -->\nold\n<!-- end generated -->\nmore\n"
    filled = cards.fill_blocks(text, {"card": lambda: "new"}, "README.md")
    assert filled == "why\n<!-- generated: card -->\nnew\n<!-- end generated -->\nmore\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no block here", "lacks the block '<!-- generated: card -->'"),
        ("<!-- generated: crad -->\n<!-- end generated -->", "unknown generated block 'crad'"),
    ],
)
def test_missing_or_unknown_block_is_said(text, message):
    with pytest.raises(UserError, match=message):
        cards.fill_blocks(text, {"card": lambda: "x"}, "README.md")


def test_a_bar_in_a_cell_does_not_break_the_table():
    assert cards.table(["a"], [["|x|"]]).splitlines()[-1] == "| \\|x\\| |"
