"""`python -m flashlib.exercises report DIR`: who has solved what, as a table and as CSV."""

import argparse
import os
import sys
from pathlib import Path

from flashlib.exercises import report


def main(argv=None):
    """Command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m flashlib.exercises", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    table = commands.add_parser("report", help="run handed-in notebooks, print learner x exercise")
    table.add_argument("folder", type=Path, help="DIR/ada.ipynb or DIR/ada/02.ipynb")
    table.add_argument("--csv", type=Path, help="where to write the CSV (default: print it)")
    table.add_argument("--seconds", type=float, default=300, help="time limit for a notebook")
    table.add_argument("--jobs", type=int, default=2, help="notebooks at a time")
    run = commands.add_parser("run", help="used by report: run one notebook in this process")
    run.add_argument("notebook", type=Path)
    run.add_argument("result", type=Path)
    args = parser.parse_args(argv)
    if args.command == "run":
        report.run_cells(args.notebook, args.result)
        return 0
    return _report(args)


def _report(args):
    if not args.folder.is_dir():
        print(f"{args.folder} is no folder", file=sys.stderr)
        return 2
    if not report.hand_ins(args.folder):
        print(f"no notebooks in {args.folder}", file=sys.stderr)
        return 2
    missing = report.what_is_missing()
    if missing:
        print(missing, file=sys.stderr)
        return 1
    if report.looks_like_one_learner(args.folder):
        text = "these look like one learner's notebooks; give the folder above"
        print(f"note: {text}", file=sys.stderr, flush=True)
    found = report.report(args.folder, args.seconds, args.jobs)
    if args.csv:  # before anything is printed: whoever reads that may stop early
        args.csv.write_text(report.as_csv(found), encoding="utf-8", newline="\n")
    print(report.as_text(found))
    if not args.csv:
        print("\n" + report.as_csv(found), end="")
    return 0


def _main_into_a_pipe():
    """`main`; a reader that stops early, such as `head`, is no error."""
    try:
        code = main()
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at the end
        code = 0
    return code


if __name__ == "__main__":
    sys.exit(_main_into_a_pipe())
