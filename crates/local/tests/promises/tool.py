"""What applications, and those who would get around the mesh, do in the tests of its promises.

Run inside workloads, and in the machine's own namespace. Prints one line for each thing that it
did: what it was, a tab, and what came of it: `done ...`, or the name of the error.
"""

import base64
import ctypes
import errno
import http.client
import http.server
import os
import resource
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from urllib.parse import urlsplit

PATIENCE = 5
LIBC = ctypes.CDLL(None, use_errno=True)


def report(name, attempt):
    try:
        outcome = f"done {attempt()}"
    except socket.timeout:
        outcome = "ETIMEDOUT"
    except OSError as error:
        outcome = errno.errorcode.get(error.errno, f"{type(error).__name__} {error}")
    sys.stdout.write(f"{name}\t{outcome}\n")
    sys.stdout.flush()


def call(number, *args):
    result = LIBC.syscall(ctypes.c_long(number), *[ctypes.c_void_p(arg) for arg in args])
    if result < 0:
        raise OSError(ctypes.get_errno(), "")
    return result


# ---- applications -----------------------------------------------------------------------------


def web(port, name):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            if self.headers.get("upgrade") == "websocket":
                return self.switch()
            body = name.encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def switch(self):
            self.send_response(101)
            self.send_header("connection", "upgrade")
            self.send_header("upgrade", "websocket")
            self.end_headers()
            self.close_connection = True
            while frame := read_frame(self.rfile):
                self.wfile.write(bytes([0x82, len(frame)]) + frame)

        def log_message(self, *_):
            print("request", flush=True)

    class Server(http.server.ThreadingHTTPServer):
        address_family = socket.AF_INET6
        request_queue_size = 64

        def server_bind(self):
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            super().server_bind()

    Server(("::", port), Handler).serve_forever()


def read_frame(stream):
    """The bytes of a short masked frame; none at the end."""
    head = stream.read(6)
    if len(head) < 6:
        return b""
    masked = stream.read(head[1] & 0x7F)
    return bytes(byte ^ head[2 + at % 4] for at, byte in enumerate(masked))


def each(port, serve):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        stream, _ = listener.accept()
        threading.Thread(target=serve, args=(stream,), daemon=True).start()


def greet(stream, name):
    with stream:
        stream.sendall(f"220 {name}\r\n".encode())
        while data := stream.recv(4096):
            stream.sendall(b"250 " + data)


def serve(name, *specs):
    """Each `PORT:web` or `PORT:greet`."""
    for spec in specs:
        port, kind = spec.split(":")
        if kind == "web":
            work = lambda port=port: web(int(port), name)
        else:
            work = lambda port=port: each(int(port), lambda stream: greet(stream, name))
        threading.Thread(target=work, daemon=True).start()
    signal.pause()


def answer(name, port):
    """As `serve` of one `greet`, for who waits for the first line."""
    print("there\tdone", flush=True)
    each(int(port), lambda stream: greet(stream, name))


# ---- their clients ----------------------------------------------------------------------------


def get(*urls):
    for url in urls:
        report(url, lambda: fetch(url))


def fetch(url):
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=PATIENCE)
    try:
        connection.request("GET", parts.path or "/")
        answer = connection.getresponse()
        return f"{answer.status} {answer.read().decode().strip()}"
    except http.client.HTTPException as error:
        raise OSError(errno.ECONNRESET, "") from error


def talk(*targets):
    """With who speaks first; each `HOST PORT`."""
    for host, port in zip(targets[::2], targets[1::2]):
        report(f"{host} {port}", lambda: converse(host, int(port)))


def converse(host, port):
    with socket.create_connection((host, port), PATIENCE) as stream:
        greeting = stream.recv(4096).decode().strip()
        stream.sendall(b"ehlo\r\n")
        return f"{greeting} {stream.recv(4096).decode().strip()}"


def websocket(host, port):
    report("websocket", lambda: switch(host, int(port)))


def switch(host, port):
    with socket.create_connection((host, port), PATIENCE) as stream:
        key = base64.b64encode(os.urandom(16)).decode()
        fields = f"upgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: {key}"
        head = f"GET / HTTP/1.1\r\nhost: {host}\r\nconnection: upgrade\r\n{fields}\r\n\r\n"
        stream.sendall(head.encode())
        reader = stream.makefile("rb")
        status = reader.readline().split()[1].decode()
        while reader.readline().strip():
            pass
        said = []
        for word in (b"one", b"two"):
            stream.sendall(bytes([0x82, 0x80 | len(word)]) + bytes(4) + word)
            said.append(reader.read(2 + len(word))[2:].decode())
        return " ".join([status, *said])


def names(*asked):
    for name in asked:
        report(name, lambda: " ".join(resolve(name)))


def resolve(name):
    try:
        found = socket.getaddrinfo(name, 80, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise OSError(-1, {-2: "EAI_NONAME", -3: "EAI_AGAIN"}.get(error.errno, "")) from None
    return sorted(address[0] for *_, address in found)


# ---- ways around the sidecar ------------------------------------------------------------------


def outbound(port, *hosts):
    ways = [plain, from_a_port, by_its_device, by_a_child, fast_open, mptcp, source_route]
    tries = [(way, host) for way in ways for host in hosts]
    at_once((f"{way.__name__} {host}", way, (host, int(port))) for way, host in tries)


def at_once(tries):
    """Name, what is called, and with what; who hears nothing takes its time."""
    threads = [
        threading.Thread(target=lambda one=one: report(one[0], lambda: one[1](*one[2:])))
        for one in tries
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def listen_for(*targets):
    """As `talk`, all at once, for those that are thought to be silent."""
    pairs = zip(targets[::2], targets[1::2])
    at_once((f"{host} {port}", plain, (host, int(port))) for host, port in pairs)


def hear(stream):
    data = stream.recv(4096)
    if not data:
        raise OSError(errno.ECONNRESET, "")
    return data.decode().strip()


def new(address, protocol=0):
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    stream = socket.socket(family, socket.SOCK_STREAM, protocol)
    # What is not answered in this time is not answered.
    stream.settimeout(1)
    return stream


def plain(address, stream=None):
    with stream or new(address) as stream:
        stream.connect(address)
        return hear(stream)


def from_a_port(address):
    stream = new(address)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    stream.bind(("", 53))
    return plain(address, stream)


def by_its_device(address):
    stream = new(address)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"eth0")
    return plain(address, stream)


def by_a_child(address):
    code = "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)"
    code += "; print(s.recv(4096).decode() or sys.exit(1))"
    command = [sys.executable, "-c", code, address[0], str(address[1])]
    child = subprocess.run(command, capture_output=True, text=True, start_new_session=True)
    if child.returncode:
        raise OSError(errno.ECONNRESET, "")
    return child.stdout.strip()


def fast_open(address):
    with new(address) as stream:
        try:
            stream.sendto(b"ehlo\r\n", socket.MSG_FASTOPEN, address)
        except BlockingIOError:
            pass
        return hear(stream)


def mptcp(address):
    return plain(address, new(address, 262))


def source_route(address):
    stream = new(address)
    if stream.family == socket.AF_INET:
        # Loose, by way of the destination itself.
        hop = socket.inet_aton(address[0])
        stream.setsockopt(socket.IPPROTO_IP, socket.IP_OPTIONS, b"\x83\x07\x04" + hop + b"\x01")
    return plain(address, stream)


def mark(host, port):
    """A datagram, which passes by: what was sent before it was sent before."""
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"end", (host, int(port)))
    print("mark\tdone", flush=True)


ALL = 3


def sniff(link, end):
    """Everything that comes out of a workload but ARP and ICMPv6, until a datagram for `end`."""
    # With a protocol before it is bound, it would hear every other interface too.
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    wire.bind((link, ALL))
    print("listening\tdone", flush=True)
    while True:
        packet, (_, _, kind, *_) = wire.recvfrom(2048)
        seen = None if kind == socket.PACKET_OUTGOING else read_packet(packet[14:], packet[12:14])
        if seen is None:
            continue
        protocol, destination, port = seen
        if protocol == socket.IPPROTO_UDP and port == int(end):
            break
        print(f"{protocol} {destination} {port}\tdone", flush=True)


def read_packet(packet, ethertype):
    """Protocol, destination and port."""
    if ethertype == b"\x08\x00":
        protocol, rest = packet[9], packet[(packet[0] & 15) * 4 :]
        destination = socket.inet_ntoa(packet[16:20])
    elif ethertype == b"\x86\xdd":
        protocol, rest = packet[6], packet[40:]
        destination = socket.inet_ntop(socket.AF_INET6, packet[24:40])
        if protocol in (0, socket.IPPROTO_ICMPV6):
            return None
    else:
        return None
    return protocol, destination, struct.unpack("!H", rest[2:4])[0] if len(rest) >= 4 else 0


# ---- what an application has no right to ------------------------------------------------------


def read(process, runtime, workload, other):
    """What root reads and an application does not."""
    for name in ("mem", "environ", "maps", "auxv", "stack", "syscall", "pagemap"):
        report(name, lambda: len(open(f"/proc/{process}/{name}", "rb", 0).readline(1) or "-"))
    for name in ("fd", "fdinfo", "root", "cwd", "map_files"):
        report(name, lambda: len(os.listdir(f"/proc/{process}/{name}")))
    report("exe", lambda: os.readlink(f"/proc/{process}/exe"))
    report("namespace", lambda: os.readlink(f"/proc/{process}/ns/net"))
    for name in (f"{workload}/sidecar", f"{other}/sidecar", f"{other}/home"):
        report(name, lambda: len(os.listdir(f"{runtime}/workloads/{name}")))
    report("key", lambda: len(open(f"{runtime}/workloads/{workload}/sidecar/leaf.pem").read()))
    report("control", lambda: len(os.listdir(f"{runtime}/control")))
    report("authority", lambda: len(find_key(f"{runtime}/control/authorities")))
    own = f"workloads/{workload}"
    for name in (f"{own}/sidecar.out", f"{own}/template.json", "supervisor.log", "control.err"):
        report(name, lambda: len(open(f"{runtime}/{name}").read()))
    report("operator", lambda: connect_unix(f"{runtime}/control/operator.sock"))
    report("supervisor", lambda: connect_unix(f"{runtime}/supervisor.sock"))


def find_key(folder):
    return open(f"{folder}/{os.listdir(folder)[0]}/ca.key").read()


def connect_unix(path):
    socket.socket(socket.AF_UNIX).connect(path)


def act(process, runtime, workload, other_namespace):
    process = int(process)
    report("attach", lambda: call(101, 16, process, 0, 0))
    report("seize", lambda: call(101, 0x4206, process, 0, 0))
    report("read its memory", lambda: peek(process))
    report("write its memory", lambda: open(f"/proc/{process}/mem", "wb"))
    report("take its sockets", lambda: call(438, os.pidfd_open(process), 16, 0))
    for sent in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGHUP):
        report(sent.name, lambda: os.kill(process, sent))
    report("slow it down", lambda: os.setpriority(os.PRIO_PROCESS, process, 19))
    report("limit it", lambda: resource.prlimit(process, resource.RLIMIT_NOFILE, (1, 1)))
    report("pin it", lambda: os.sched_setaffinity(process, {0}))
    report("oom", lambda: open(f"/proc/{process}/oom_score_adj", "w").write("1000"))
    for name in ("source/mesh.yaml", f"workloads/{workload}/bootstrap.yaml", "state.json", "lock"):
        report(f"write {name}", lambda: open(f"{runtime}/{name}", "r+"))
    for name in ("source", "status", f"workloads/{workload}", "control"):
        report(f"create in {name}", lambda: open(f"{runtime}/{name}/x.yaml", "x"))
    report("setuid", lambda: os.setresuid(BYPASS, BYPASS, BYPASS))
    report("setgroups", lambda: os.setgroups([0]))
    report("SO_MARK", lambda: new(("",)).setsockopt(socket.SOL_SOCKET, 36, 1))
    report("SO_RCVBUFFORCE", lambda: new(("",)).setsockopt(socket.SOL_SOCKET, 33, 1))
    report("IP_TRANSPARENT", lambda: new(("",)).setsockopt(socket.IPPROTO_IP, 19, 1))
    report("TCP_REPAIR", lambda: new(("",)).setsockopt(socket.IPPROTO_TCP, 19, 1))
    raw = (socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    report("raw socket", lambda: socket.socket(*raw))
    report("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    report("join a namespace", lambda: setns(f"/run/netns/{other_namespace}"))
    report("move cgroup", lambda: open(cgroup("cgroup.procs"), "w").write("0"))
    report("sysctl", lambda: open("/proc/sys/net/ipv4/ip_forward", "w").write("1"))
    for command in COMMANDS:
        report(" ".join(command), lambda: run(command))


def peek(process):
    buffer = ctypes.create_string_buffer(8)
    spot = struct.pack("QQ", ctypes.addressof(buffer), 8)
    there = struct.pack("QQ", 0x400000, 8)
    spots = [ctypes.cast(ctypes.c_char_p(bytes), ctypes.c_void_p).value for bytes in (spot, there)]
    return call(310, process, spots[0], 1, spots[1], 1, 0)


def setns(path):
    if LIBC.setns(os.open(path, os.O_RDONLY), 0):
        raise OSError(ctypes.get_errno(), "")


def cgroup(name):
    lines = open("/proc/mounts").read().splitlines()
    points = [line.split()[1] for line in lines if " cgroup " in line or " cgroup2 " in line]
    return f"{points[0]}/{name}"


ROOTED = ["unshare", "--user", "--map-root-user"]
# The user of the sidecar, which may go where it wants.
GIVEN = [word for word in sys.argv if word.startswith("--bypass=")]
BYPASS = int(GIVEN[0].split("=")[1]) if GIVEN else 1500
BYPASSING = ["unshare", "--user", f"--map-user={BYPASS}", f"--map-group={BYPASS}"]
COMMANDS = [
    ["nft", "list", "ruleset"],
    ["nft", "flush", "ruleset"],
    ["iptables", "-t", "nat", "-F"],
    ["ip6tables", "-t", "nat", "-F"],
    ["ip", "link", "set", "eth0", "down"],
    ["ip", "addr", "add", "10.9.9.9/32", "dev", "lo"],
    ["ip", "route", "del", "default"],
    ["ip", "link", "add", "way-out", "type", "dummy"],
    [*ROOTED, "nft", "flush", "ruleset"],
    [*ROOTED, "ip", "link", "set", "eth0", "down"],
    [*ROOTED, "--mount", "umount", "/etc/resolv.conf"],
    [*ROOTED, "setpriv", f"--reuid={BYPASS}", "true"],
    ["setpriv", f"--reuid={BYPASS}", "true"],
]


def run(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise OSError(-1, f"missing {command[0]}") from None
    if done.returncode == 0:
        return done.stdout.strip()
    raise OSError(-1, done.stderr.strip().replace("\n", " "))


def as_bypass(*command):
    """The same under the sidecar's number, in a user namespace that says so."""
    check = f"test $(id -u) = {BYPASS} && exec \"$@\""
    own = ["sh", "-c", check, "sh", sys.executable, __file__]
    os.execvp(BYPASSING[0], [*BYPASSING, "--", *own, *command])


def apart(*command):
    """The same in a network namespace of one's own."""
    own = ["sh", "-c", "ip link set lo up; exec \"$@\"", "sh", sys.executable, __file__]
    os.execvp(ROOTED[0], [*ROOTED, "--net", "--", *own, *command])


def bind(*ports):
    """Ports that somebody has."""
    for port in ports:
        for family, address in FORMS:
            report(f"{port} {address or '0.0.0.0'}", lambda: listen(family, address, int(port)))


FORMS = [(socket.AF_INET, ""), (socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")]


def listen(family, address, port):
    listener = socket.socket(family)
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        listener.setsockopt(socket.SOL_SOCKET, option, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind((address, port))
    listener.listen()
    return listener


def squat(*ports):
    """Takes ports as soon as they are free, and answers there."""
    for port in ports:
        threading.Thread(target=wait_for_port, args=(int(port),), daemon=True).start()
    print("waiting\tdone", flush=True)
    signal.pause()


def wait_for_port(port):
    while True:
        try:
            listener = listen(socket.AF_INET6, "::", port)
            break
        except OSError:
            time.sleep(0)
    print(f"{port}\tdone", flush=True)
    while True:
        stream, _ = listener.accept()
        threading.Thread(target=greet, args=(stream, "squatter"), daemon=True).start()


if __name__ == "__main__":
    words = [word for word in sys.argv[1:] if word not in GIVEN]
    globals()[words[0].replace("-", "_")](*words[1:])
