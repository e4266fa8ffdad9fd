"""A small part of every kind, with a given text wherever a part contains one."""

import numpy as np

from clew.drawing.parts import (
    Bars,
    Branch,
    Branches,
    ColouredText,
    Grid,
    Heatmap,
    Lines,
    Network,
    Node,
    Note,
    Overlays,
    Part,
    Points,
    Series,
    Spelled,
    Table,
)


def every_part(text: str = "name") -> list[Part]:
    large = np.linspace(-1, 1, 41 * 41).reshape(41, 41)
    return [
        Note(text),
        Heatmap(np.eye(2), [text, "b"], ["x", text], text, text, text),
        Heatmap(large, [text] * 41, [text] * 41, text, diverging=True),
        Grid([[np.eye(3), np.ones((2, 2))]], [text], [text, "2"], text),
        Lines(
            [Series(text, [0, 1], [1.0, 2.0], [0.1, 0.1]), Series("b", [1], [0.5], dashed=True)],
            text,
            text,
            text,
            thresholds=[(text, 1.5)],
        ),
        Lines([Series(text, [1, 10], [1.0, 0.01])], "x", "y", log_x=True, log_y=True),
        Lines([Series("c", [0, 1, 2], [0.5, np.nan, 1.0], written=True)], "", text, x_names=[text, "", "b" * 30]),
        Bars([text, "b"], [[1.0, -1.0], [0.5, 2.0]], text, text, groups=[text, "g"]),
        Bars([text], [0.5], "share"),
        Points([Series(text, [0, 1], [1, 0])], [[text, "b"]], text, text, text),
        ColouredText([text, "b"], [0.0, 1.0], text, text, notes=[text, ""]),
        ColouredText(list(text) or ["a"], [0.5] * (len(text) or 1), joined=True),
        Table([text, "n"], [[text, 1], ["b", None]], text),
        Branches(
            [
                Branch(None, text, 0, best=True),
                Branch(0, text, -1, best=True, note=text),
                Branch(0, text, -2, kept=False),
            ],
            text,
        ),
        Overlays(
            np.arange(108, dtype=np.uint8).reshape(6, 6, 3), [text, "b"], [np.eye(2), np.ones((2, 2))], (4, 4), text
        ),
        Network([Node(text, [text], "input"), Node("f", (), "output")], [(0, 1, text)], text),
        Spelled(large, np.eye(2, 5), [text, " "], 1.5, "seconds", text, text),
    ]


HOSTILE = [
    "</script><script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    '"><svg onload=alert(1)>',
    "' onmouseover='alert(1)",
    "]]><x>&amp;&#60;b&#62;<!-- -->",
    "</style></title></text></svg><iframe srcdoc='x'>",
    "\x00\x07\x1b[31m\x7f\ufffe\uffff",
    "\u202eevil\u202c\u2066\u200f\ufeff",
    "\ud800 lone \udfff",
    "javascript:alert(1)",
    "${alert(1)} `x` @@DATA@@ $x_1$ \\frac",
    "line\nbreak\r\n\ttab\u2028\u2029\x85",
    "",
    " ",
    "é́́́́ 猫 👩‍💻 שלום",
    "a" * 3000,
]
