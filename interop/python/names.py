"""Looks up names as Python does, with the C library (docs/interop.md): `python names.py NAME…` prints each with its addresses."""

import socket
import sys


def addresses(name):
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        if error.errno in (socket.EAI_NONAME, socket.EAI_NODATA):
            return []
        raise
    return [address[0] for *_, address in found]


for name in sys.argv[1:]:
    print(name, *addresses(name))
