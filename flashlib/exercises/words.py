"""How a verdict puts it: the text about errors, prints, mistakes and differences."""

import numpy as np

from flashlib.exercises import compare

COLUMN_TIP = "One number a row meets a matrix as a column: x[:, None]."


def error_lines(error, line):
    """What a function raised, in which of its lines, and a tip where one is known."""
    # Triton wraps the learner's error: once when it interprets, once a call when it compiles
    while type(error).__name__ in ("InterpreterError", "CompilationError") and error.__cause__:
        error = error.__cause__
    try:
        text = str(getattr(error, "error_message", None) or error)
    except Exception:  # an error that can't even be printed
        text = ""
    lines = [f"Your function raised {type(error).__name__}{': ' if text else ''}{text[:300]}"]
    if line:
        lines.append(f"in line {line[0]}: {line[1]}")
    if "broadcast together" in text:
        lines.append(COLUMN_TIP)
    return [" ".join(lines[0].split()), *lines[1:]]


def printed_lines(outcome):
    """What NumPy warned of and the first lines that were printed."""
    lines = []
    if outcome.warned:
        lines.append(f"NumPy warned: {outcome.warned[0].message}")
    printed = outcome.printed.strip().splitlines()[:5]
    return lines + (["It printed:", *("  " + line[:90] for line in printed)] if printed else [])


def mistake_lines(mistake):
    """The name of a Mistake or Pattern, and its advice."""
    lines = [f"It looks like this: {mistake.name}."]
    return lines + ([mistake.advice] if mistake.advice else [])


def difference_lines(name, got, expected, wrong):
    """Got and expected: whole when small, otherwise the first entry that is wrong."""
    name = f"{name} = " if name else ""
    if np.shape(expected) == ():
        return [
            f"Got:      {name}{compare.number(got)}",
            f"Expected: {name}{compare.number(expected)}",
        ]
    if np.size(expected) <= 12:
        return [
            f"Got:      {name}{compare.rows(got)}",
            f"Expected: {name}{compare.rows(expected)}",
        ]
    at = tuple(int(k) for k in np.argwhere(wrong)[0])
    label = (name.removesuffix(" = ") or "result") + str(list(at))
    count = f"({int(np.sum(wrong))} of {np.size(wrong)} entries are wrong)"
    return [
        f"Got:      {label} = {compare.number(float(got[at]))}  {count}",
        f"Expected: {label} = {compare.number(float(expected[at]))}",
    ]
