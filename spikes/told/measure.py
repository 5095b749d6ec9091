#!/usr/bin/env python3
"""CPU per request of a sidecar pair that is told against the same pair from static files, alternating.

Root. Brings the hello mesh up, stops its supervisor, and starts both sidecars anew for every measurement: from their
bootstrap (told), or from a file with the same listeners and clusters (static). Prints microseconds of CPU of both
sidecars per request, the ratio's median and its 95 % interval (order statistics).
"""
import json, os, re, signal, subprocess, sys, tempfile, time
from math import comb

LENO = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "target/release/leno")
ROUNDS = int(sys.argv[2]) if len(sys.argv) > 2 else 12
CONNS = int(sys.argv[3]) if len(sys.argv) > 3 else 64
PROXY = os.path.join(os.path.dirname(LENO), "leno-proxy")
RUN = "/run/leno/told"

def sh(*words, **more):
    return subprocess.run(words, check=True, capture_output=True, text=True, **more).stdout

def inside(workload, *words):
    return ["ip", "netns", "exec", f"leno-told.{workload}", *words]

def start(workload, config):
    # The owner of what it keeps: its own user, which may pass the rules by.
    owner = str(os.stat(f"{RUN}/workloads/{workload}/sidecar").st_uid)
    command = inside(workload, "taskset", "-c", "0", "setpriv", f"--reuid={owner}", f"--regid={owner}", "--clear-groups", PROXY, "--config", config)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=sys.stderr, text=True)
    json.loads(process.stdout.readline())
    return process

def cpu_us(process):
    total = 0
    for task in os.listdir(f"/proc/{process.pid}/task"):
        total += int(open(f"/proc/{process.pid}/task/{task}/schedstat").read().split()[0])
    return total / 1000

def dump(workload):
    return json.loads(sh(*inside(workload, "curl", "-s", "http://127.0.0.1:15000/config_dump")))["config"]

def static(workload, told, own):
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
              "identity": {"certificate": f"{own}/leaf.pem", "key": f"{own}/leaf.pem", "trustBundle": f"{RUN}/workloads/{workload}/root.pem"},
              "listeners": [listener(l) for l in told["listeners"]], "clusters": [cluster(c) for c in told["clusters"]]}
    path = f"{RUN}/workloads/{workload}/static.yaml"
    open(path, "w").write(json.dumps(config))
    os.chmod(path, 0o644)
    return path

def load(seconds):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        os.chmod(out.name, 0o666)
        words = [LENO, "load", "http://hello.default.svc.cluster.local/", "-c", str(CONNS), "--qps", "max", "-t", f"{seconds}s", "--warm-up", "300ms", "--size", "1024", "--json", out.name]
        subprocess.run(inside("curl-0", "taskset", "-c", "1", *words), capture_output=True)
        result = json.load(open(out.name))
    return result

def served(workload):
    page = sh(*inside(workload, "curl", "-s", "http://127.0.0.1:15000/metrics"))
    return sum(float(l.rsplit(" ", 1)[1]) for l in page.splitlines() if l.startswith("leno_requests_total"))

def measure(kind, files):
    pair = [start(w, files[kind][w]) for w in ("hello-0", "curl-0")]
    try:
        # Until what happens at a start is over: connections, certificates, what is written down.
        load(1.5)
        done, spent = served("curl-0"), sum(map(cpu_us, pair))
        result = load(3)
        spent, done = sum(map(cpu_us, pair)) - spent, served("curl-0") - done
        codes = result["RetCodes"]
        assert set(codes) == {"200"}, codes
        return spent / done
    finally:
        for p in pair:
            p.terminate(); p.wait()

def main():
    subprocess.run([LENO, "down", "told"], capture_output=True)
    print(sh(LENO, "up", os.path.join(os.getcwd(), "examples/hello/mesh.yaml"), "--name", "told"))
    state = json.load(open(f"{RUN}/state.json"))
    try:
        load(0.3)
        told = {w: dump(w) for w in ("hello-0", "curl-0")}
        files = {"told": {}, "static": {}}
        for w in told:
            own = f"{RUN}/workloads/{w}/sidecar"
            files["told"][w] = f"{RUN}/workloads/{w}/bootstrap.yaml"
            files["static"][w] = static(w, told[w], own)
        supervisor = state["supervisor"]["pid"]
        os.kill(supervisor, signal.SIGSTOP)
        for instance in state["instances"]:
            os.kill(instance["sidecar"]["process"]["pid"], signal.SIGKILL)
            # The echo server and the generator share the other core.
            application = instance["application"]
            if application and application["process"]:
                sh("taskset", "-a", "-c", "-p", "1", str(application["process"]["pid"]))
        time.sleep(0.5)
        ratios = []
        for round in range(ROUNDS):
            order = ("told", "static") if round % 2 == 0 else ("static", "told")
            cost = {kind: measure(kind, files) for kind in order}
            ratios.append(cost["told"] / cost["static"])
            print(f"round {round}: told {cost['told']:.2f} us, static {cost['static']:.2f} us, ratio {ratios[-1]:.3f}", flush=True)
        ratios.sort()
        n = len(ratios)
        k = max(k for k in range(n // 2) if sum(comb(n, i) for i in range(k + 1)) / 2 ** n <= 0.025) if n >= 6 else 0
        print(f"ratio told/static: median {(ratios[(n - 1) // 2] + ratios[n // 2]) / 2:.3f}, 95 % interval [{ratios[k]:.3f}, {ratios[n - 1 - k]:.3f}], {n} rounds")
        os.kill(supervisor, signal.SIGCONT)
    finally:
        subprocess.run([LENO, "down", "told"])

if __name__ == "__main__":
    main()
