#!/usr/bin/env python3
# time-limit: 240
"""macsec.py with crypto in the port: the node above the card sees clear frames alone."""
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.argv[1:] = ["", "inline"]
import macsec  # noqa: E402

macsec.main()
