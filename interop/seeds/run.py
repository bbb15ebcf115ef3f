"""Walks the features of the examples end to end: `python interop/seeds/run.py [EXAMPLE ...] [--only TEXT] [--list]`.

Run it with the Python of `.setup/python/sdk2`, as `cargo xtask interop migration` does. `SEEDS_BINARY` is the gateway
(`target/debug/toolbooth`), `SEEDS_SETUP` the folder of installed packages (`.setup`), `SEEDS_NODE` the Node in it.
"""

import importlib
import os
import sys

from booth import BINARY

EXAMPLES = {"atlas-ui": "atlas_ui", "attocode": "attocode", "atlas": "atlas"}


def main() -> int:
    arguments = sys.argv[1:]
    wanted = None
    if "--only" in arguments:
        at = arguments.index("--only")
        wanted = arguments[at + 1]
        del arguments[at : at + 2]
    listing = "--list" in arguments
    names = [name for name in arguments if name != "--list"] or list(EXAMPLES)
    if not listing and not os.path.exists(BINARY):
        print(f"{BINARY} does not exist; set SEEDS_BINARY", file=sys.stderr)
        return 2
    good = True
    for name in names:
        checks = importlib.import_module(EXAMPLES[name]).CHECKS
        if listing:
            print("\n".join(check.name for check in checks.checks))
        else:
            good &= checks.run(wanted)
    return 0 if good else 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # A check that ran into its limit may still hold a thread.
    os._exit(code)
