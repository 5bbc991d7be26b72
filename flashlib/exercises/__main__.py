"""`python -m flashlib.exercises report DIR`: who has solved what, as a table and as CSV."""

import argparse
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
    found = report.report(args.folder, args.seconds, args.jobs)
    if not found:
        print(f"no notebooks in {args.folder}", file=sys.stderr)
        return 2
    print(report.as_text(found))
    if args.csv:
        args.csv.write_text(report.as_csv(found), encoding="utf-8", newline="\n")
    else:
        print("\n" + report.as_csv(found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
