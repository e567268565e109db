"""Who ends the process is found out; whoever else leaves is left alone."""

import os

import pytest

from rle.exits import exits_raise, line_of


def test_a_hard_exit_raises_and_its_line_is_the_callers():
    code = compile("import os\n\nos._exit(3)", "policy.py", "exec")
    with pytest.raises(SystemExit) as left, exits_raise():
        exec(code, {})
    assert left.value.code == 3 and line_of(left.value) == 3


def test_a_name_taken_meanwhile_still_raises_and_ours_comes_back():
    whole = os._exit
    with exits_raise():
        from os import _exit as taken
    assert os._exit is whole
    with pytest.raises(SystemExit):
        taken(0)


def test_a_forked_process_leaves_by_it():
    with exits_raise():
        child = os.fork()
        if child == 0:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_a_syntax_error_has_the_line_of_the_text():
    with pytest.raises(SyntaxError) as wrong:
        compile("x = 1\ny = (", "policy.py", "exec")
    assert line_of(wrong.value) == 2
