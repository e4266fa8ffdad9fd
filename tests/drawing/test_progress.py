from clew.drawing.progress import progress_html


def test_messages_keep_their_white_space_and_are_escaped() -> None:
    page = progress_html(["<b>", "  indented"], 3, 10, "step <3>")
    assert "&lt;b&gt;\n  indented" in page and '<progress max="10" value="3"' in page and "step &lt;3&gt;" in page


def test_there_is_no_bar_without_a_total() -> None:
    assert "<progress" not in progress_html(["reading"], 0, 0, "")
