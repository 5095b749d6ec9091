"""Applications of the cases of the field. Each writes what came of what it did to `said/INSTANCE`,
line by line: when it was begun, in nanoseconds that all processes share, and what came.
"""

import errno
import http.client
import http.server
import os
import signal
import socket
import sys
import threading
import time
from urllib.parse import urlsplit

# Only what fails waits this long.
PATIENCE = 30
NAME = os.environ["LENO_INSTANCE"]
SAID = f"said/{NAME}"


def note(begun, text):
    os.umask(0)
    with open(SAID, "a") as file:
        file.write(f"{begun} {text}\n")


def ask(url):
    """Over a connection of its own."""
    begun = time.monotonic_ns()
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=PATIENCE)
    try:
        connection.request("GET", parts.path or "/")
        came = str(connection.getresponse().status)
    except socket.gaierror as error:
        came = f"name {error.errno}"
    except OSError as error:
        came = errno.errorcode.get(error.errno, type(error).__name__)
    except http.client.HTTPException as error:
        came = type(error).__name__
    finally:
        connection.close()
    note(begun, came)
    return came


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path.startswith("/eat"):
            eat()
        body = f"{NAME} {self.path}".encode()
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    request_queue_size = 64
    daemon_threads = True

    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def eat():
    """All the memory that there is, and more."""
    kept = []
    while True:
        kept.append(os.urandom(1 << 20))


def serve():
    server = Server(("::", 8080), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def serve_on():
    serve()
    signal.pause()


def first(url):
    """Asks before it does anything else, then serves."""
    ask(url)
    serve()
    signal.pause()


def once(url, status):
    """Asks, and ends."""
    ask(url)
    sys.exit(int(status))


def at_last(url, count):
    """Ends well when it was started so many times."""
    ask(url)
    with open(SAID) as file:
        sys.exit(0 if len(file.readlines()) >= int(count) else 1)


def last(url, seconds):
    """Serves; asked to end, it asks again and again for so long, and only then ends."""
    asked_to_end = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked_to_end.set())
    serve()
    asked_to_end.wait()
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end:
        ask(url)
        time.sleep(0.02)
    note(time.monotonic_ns(), "end")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
