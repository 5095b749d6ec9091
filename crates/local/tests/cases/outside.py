"""Who asks a gateway from outside. Prints one line: what came of it."""

import base64
import os
import socket
import ssl
import sys
from http.client import HTTPConnection, HTTPException

PATIENCE = 30


class At(HTTPConnection):
    """To this machine, whatever the name; over TLS where there are authorities."""

    def __init__(self, port, host, authorities=None, alpn=("http/1.1",), version=None):
        super().__init__(host, port, timeout=PATIENCE)
        self.ours = (port, host, authorities, alpn, version)

    def connect(self):
        port, host, authorities, alpn, version = self.ours
        self.sock = socket.create_connection(("127.0.0.1", port), PATIENCE)
        if authorities:
            context = ssl.create_default_context(cafile=authorities)
            context.set_alpn_protocols(alpn)
            if version:
                context.maximum_version = version
            self.sock = context.wrap_socket(self.sock, server_hostname=host)


def get(connection, path):
    connection.request("GET", path)
    answer = connection.getresponse()
    location = answer.getheader("location", "")
    return f"{answer.status} {answer.read().decode()}{location}"


def http(port, host, path):
    return get(At(int(port), host), path)


def https(port, host, path, authorities):
    connection = At(int(port), host, authorities)
    connection.connect()
    names = [name for _, name in connection.sock.getpeercert()["subjectAltName"]]
    return f"{' '.join(names)} {get(connection, path)}"


def tls12(port, host, path, authorities):
    connection = At(int(port), host, authorities, version=ssl.TLSVersion.TLSv1_2)
    answer = get(connection, path)
    return f"{connection.sock.version()} {answer}"


def serial(port, host, authorities):
    connection = At(int(port), host, authorities)
    connection.connect()
    return connection.sock.getpeercert()["serialNumber"].lower()


def http2(port, host, authorities):
    """A request of the shortest form (RFC 9113): settings, then a head of four fields."""
    connection = At(int(port), host, authorities, alpn=("h2", "http/1.1"))
    connection.connect()
    stream = connection.sock
    head = b"\x82\x87\x84\x41" + bytes([len(host)]) + host.encode()
    frames = frame(4, 0, 0, b"") + frame(1, 5, 1, head)
    stream.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frames)
    reader = stream.makefile("rb")
    body = b""
    while True:
        length, kind, flags, number = read_frame(reader)
        payload = reader.read(length)
        if kind == 0:
            body += payload
        if kind == 1:
            # The first of the fields, from the table that both have.
            assert payload[0] == 0x88, payload
        if number == 1 and flags & 1:
            return f"{stream.selected_alpn_protocol()} {body.decode()}"


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def read_frame(reader):
    head = reader.read(9)
    return int.from_bytes(head[:3], "big"), head[3], head[4], int.from_bytes(head[5:], "big")


def websocket(port, host, authorities=None):
    connection = At(int(port), host, authorities)
    connection.connect()
    key = base64.b64encode(os.urandom(16)).decode()
    fields = f"Upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key}"
    head = f"GET / HTTP/1.1\r\nhost: {host}\r\nConnection: Upgrade\r\n{fields}\r\n\r\n"
    connection.sock.sendall(head.encode())
    reader = connection.sock.makefile("rb")
    said = [reader.readline().split()[1].decode()]
    while reader.readline().strip():
        pass
    for word in (b"one", b"two"):
        connection.sock.sendall(bytes([0x82, 0x80 | len(word)]) + bytes(4) + word)
        said.append(reader.read(2 + len(word))[2:].decode())
    return " ".join(said)


try:
    print(globals()[sys.argv[1]](*sys.argv[2:]))
except ssl.SSLError as error:
    print(f"alert {error.reason}")
except (OSError, HTTPException) as error:
    print(type(error).__name__)
