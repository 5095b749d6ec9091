#!/usr/bin/env python3
"""CPU per request of a sidecar pair that is told against the same pair from static files, in turns.

Root. Brings the hello mesh up twice and stops both supervisors. In each round the sidecars of one mesh are started anew
from their bootstrap (told), those of the other from files with the same listeners and clusters (static), and short loads
go to the two in turns; the next round has the meshes changed over. Prints microseconds of CPU of both sidecars per
request, and of the ratio over pairs of rounds the median and its interval (order statistics).
"""
import json, os, re, signal, subprocess, sys, tempfile, time
from math import comb

LENO = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/leno")
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
TURNS = 10
CONNS = int(sys.argv[3]) if len(sys.argv) > 3 else 64
PROXY = os.path.join(os.path.dirname(LENO), "leno-proxy")
# Two meshes side by side need addresses of their own.
MESHES = {"told-a": 77, "told-b": 87}

def sh(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout

def folder(mesh, workload):
    return f"/run/leno/{mesh}/workloads/{workload}"

def inside(mesh, workload, *words):
    return ["ip", "netns", "exec", f"leno-{mesh}.{workload}", *words]

def start(mesh, workload, config):
    # The owner of what it keeps: its own user, which may pass the rules by.
    owner = str(os.stat(f"{folder(mesh, workload)}/sidecar").st_uid)
    command = inside(mesh, workload, "taskset", "-c", "0", "setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", PROXY, "--config", config)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
    json.loads(process.stdout.readline())
    return process

def cpu_us(process):
    total = 0
    for task in os.listdir(f"/proc/{process.pid}/task"):
        total += int(open(f"/proc/{process.pid}/task/{task}/schedstat").read().split()[0])
    return total / 1000

def dump(mesh, workload):
    return json.loads(sh(*inside(mesh, workload, "curl", "-s", "http://127.0.0.1:15000/config_dump")))["config"]

def static(mesh, workload, told):
    own = f"{folder(mesh, workload)}/sidecar"
    def safe(name):
        return re.sub("[^A-Za-z0-9._:-]", "_", name)
    def host(h):
        return "*" if h == "any" else h.get("exact") or "*" + h["suffix"]
    def route(r):
        out = {"hosts": [host(h) for h in r["hosts"]], "prefix": r["prefix"], "split": [{"cluster": safe(b["cluster"]), "weight": b["weight"]} for b in r["backends"]]}
        if r["allow"] is not None: out["allow"] = r["allow"]
        return out
    def listener(l):
        keep = ["name", "direction", "bind", "originalDestination", "names", "tls", "protocol", "detectTimeout", "upgrades", "connect", "proxyProtocol", "requestId", "forwardedFor"]
        out = {k: l[k] for k in keep}
        out["address"] = l["address"]
        out["name"] = safe(l["name"])
        if l["bind"]:
            out["address"] = "[::]:" + l["address"].rsplit(":", 1)[1]
            del out["bind"]; del out["names"]
        else:
            out["additionalAddresses"] = l["additionalAddresses"]
            del out["originalDestination"]
        if l["direction"] == "outbound": del out["tls"]
        out["routes"] = [route(r) for r in l["routes"]] or [{"cluster": "passthrough"}]
        return out
    def cluster(c):
        if c["passthrough"]: return {"name": c["name"], "passthrough": True}
        out = {"name": safe(c["name"]), "balance": c["balance"], "protocol": c["protocol"]}
        out["endpoints"] = [{k: v for k, v in e.items() if v} for e in c["endpoints"]]
        return out
    config = {"workload": told["workload"], "admin": "127.0.0.1:15000", "metrics": told["metrics"] or "off", "dns": {**told["dns"], "forward": told["dns"]["forward"]["servers"]},
              "identity": {"certificate": f"{own}/leaf.pem", "key": f"{own}/leaf.pem", "trustBundle": f"{folder(mesh, workload)}/root.pem"},
              "listeners": [listener(l) for l in told["listeners"]], "clusters": [cluster(c) for c in told["clusters"]]}
    path = f"{folder(mesh, workload)}/static.yaml"
    open(path, "w").write(json.dumps(config))
    os.chmod(path, 0o644)
    return path

def load(mesh, seconds):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        os.chmod(out.name, 0o666)
        words = [LENO, "load", "http://hello.default.svc.cluster.local/", "-c", str(CONNS), "--qps", "max", "-t", f"{seconds}s", "--warm-up", "100ms", "--size", "1024", "--json", out.name]
        subprocess.run(inside(mesh, "curl-0", "taskset", "-c", "1", *words), capture_output=True)
        codes = json.load(open(out.name))["RetCodes"]
        assert set(codes) == {"200"}, codes

def served(mesh):
    page = sh(*inside(mesh, "curl-0", "curl", "-s", "http://127.0.0.1:15000/metrics"))
    return sum(float(l.rsplit(" ", 1)[1]) for l in page.splitlines() if l.startswith("leno_requests_total"))

def turn(mesh, pair):
    done, spent = served(mesh), sum(map(cpu_us, pair))
    load(mesh, 0.6)
    return (sum(map(cpu_us, pair)) - spent) / (served(mesh) - done)

def measure(kinds, files):
    """One ratio for each turn, where kinds says what each mesh is."""
    pairs = {mesh: [start(mesh, w, files[mesh][kind][w]) for w in ("hello-0", "curl-0")] for mesh, kind in kinds.items()}
    try:
        # Until what happens at a start is over: connections, certificates, what is written down.
        for mesh in kinds:
            load(mesh, 1.5)
        ratios = []
        for number in range(TURNS):
            order = list(kinds) if number % 2 == 0 else list(kinds)[::-1]
            cost = {kinds[mesh]: turn(mesh, pairs[mesh]) for mesh in order}
            ratios.append(cost["told"] / cost["static"])
        return cost, ratios
    finally:
        for p in sum(pairs.values(), []):
            p.terminate(); p.wait()

def up(mesh, net):
    text = open("examples/hello/mesh.yaml").read()
    text += f"""---
apiVersion: leno.dev/v1alpha1
kind: MeshConfig
metadata: {{name: mesh}}
spec:
  workloadCIDRs: [10.{net}.0.0/16, "fd{net}::/112"]
  serviceCIDRs: [10.{net + 1}.0.0/16, "fd{net + 1}::/112"]
"""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        subprocess.run([LENO, "down", mesh], capture_output=True)
        print(sh(LENO, "up", file.name, "--name", mesh))

def median(values):
    n = len(values)
    return (sorted(values)[(n - 1) // 2] + sorted(values)[n // 2]) / 2

def prepare(mesh):
    """The mesh without its supervisor and sidecars; the files to start its sidecars with, and who waits to be ended."""
    load(mesh, 0.3)
    files = {"told": {}, "static": {}}
    for w in ("hello-0", "curl-0"):
        files["told"][w] = f"{folder(mesh, w)}/bootstrap.yaml"
        files["static"][w] = static(mesh, w, dump(mesh, w))
    state = json.load(open(f"/run/leno/{mesh}/state.json"))
    os.kill(state["supervisor"]["pid"], signal.SIGSTOP)
    for instance in state["instances"]:
        os.kill(instance["sidecar"]["process"]["pid"], signal.SIGKILL)
        # The echo server and the generator share the other core.
        application = instance["application"]
        if application and application["process"]:
            sh("taskset", "-a", "-c", "-p", "1", str(application["process"]["pid"]))
    return files, state["supervisor"]["pid"]

def main():
    stopped = []
    try:
        files = {}
        for mesh, net in MESHES.items():
            up(mesh, net)
            files[mesh], supervisor = prepare(mesh)
            stopped.append(supervisor)
        time.sleep(0.5)
        rounds = []
        for number in range(ROUNDS):
            told, static = list(MESHES) if number % 2 == 0 else list(MESHES)[::-1]
            cost, ratios = measure({told: "told", static: "static"}, files)
            rounds.append(median(ratios))
            print(f"round {number}: told {cost['told']:.2f} us, static {cost['static']:.2f} us at last, ratio {median(ratios):.3f}", flush=True)
        # What one mesh has over the other, such as where its memory lies, is in two rounds that follow each other
        # once this way and once that.
        pairs = sorted((a * b) ** 0.5 for a, b in zip(rounds[::2], rounds[1::2]))
        n = len(pairs)
        k = max((k for k in range(n // 2) if sum(comb(n, i) for i in range(k + 1)) / 2 ** n <= 0.025), default=0)
        sure = 1 - 2 * sum(comb(n, i) for i in range(k + 1)) / 2 ** n
        print(f"ratio told/static: median {median(pairs):.3f}, {sure:.1%} interval [{pairs[k]:.3f}, {pairs[n - 1 - k]:.3f}], {n} pairs of rounds of {TURNS} turns")
    finally:
        for supervisor in stopped:
            os.kill(supervisor, signal.SIGCONT)
        for mesh in MESHES:
            subprocess.run([LENO, "down", mesh])

if __name__ == "__main__":
    main()
