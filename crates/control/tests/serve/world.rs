//! A control plane of its own for each test, on files that the test writes.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread::JoinHandle;

use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// Two workloads and a Service of one of them.
pub(crate) const HELLO: &str = "
apiVersion: v1
kind: Service
metadata: {name: hello}
spec:
  selector: {app: hello}
  ports: [{name: http, port: 80, targetPort: 8080, appProtocol: http}]
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: hello, labels: {app: hello}}
spec: {serviceAccount: hello, ports: [{name: http, port: 8080, protocol: http}]}
---
apiVersion: leno.dev/v1alpha1
kind: Workload
metadata: {name: curl}
spec: {serviceAccount: curl}
";

/// Where the first one lives.
pub(crate) const STATUS: &str = "
apiVersion: leno.dev/v1alpha1
kind: WorkloadStatus
metadata: {name: hello}
status: {addresses: [10.77.0.2]}
";

/// The files of a mesh, and the control plane that reads them.
pub(crate) struct World {
    pub(crate) dir: TempDir,
    options: Vec<String>,
    running: Option<Running>,
    pub(crate) xds: SocketAddr,
    pub(crate) admin: SocketAddr,
}

struct Running {
    child: Child,
    log: JoinHandle<String>,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(&[])
    }

    pub(crate) fn with(options: &[&str]) -> Self {
        let unspecified = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut world = Self {
            dir: tempfile::tempdir().unwrap(),
            options: options.iter().map(|word| (*word).to_owned()).collect(),
            running: None,
            xds: unspecified,
            admin: unspecified,
        };
        std::fs::create_dir(world.mesh()).unwrap();
        world.write("hello.yaml", HELLO);
        world.write("status.yaml", STATUS);
        world.start();
        world
    }

    fn mesh(&self) -> PathBuf {
        self.dir.path().join("mesh")
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.dir.path().join("state")
    }

    /// Replaces a file of the mesh in one step.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let draft = self.dir.path().join("draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, self.mesh().join(name)).unwrap();
    }

    /// Runs it, on the port that it had before if it had one.
    pub(crate) fn start(&mut self) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_leno-control"))
            .arg("--source")
            .arg(self.mesh())
            .arg("--state")
            .arg(self.state())
            .args(["--listen", &self.xds.to_string(), "--admin", "127.0.0.1:0"])
            .args(&self.options)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = collect(child.stderr.take().unwrap());
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        stdout.read_line(&mut line).unwrap();
        self.running = Some(Running { child, log });
        let Ok(ready) = serde_json::from_str::<Value>(&line) else {
            panic!("it does not start:\n{}", self.stop());
        };
        assert_eq!(ready["event"], "ready");
        self.xds = ready["xds"].as_str().unwrap().parse().unwrap();
        self.admin = ready["admin"].as_str().unwrap().parse().unwrap();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.running.as_ref().unwrap().child.id()
    }

    /// Ends it without warning, and gives its log.
    pub(crate) fn stop(&mut self) -> String {
        let mut running = self.running.take().unwrap();
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        running.log.join().unwrap()
    }

    /// Ends it in order; whether it ended well, and its log.
    pub(crate) fn terminate(&mut self) -> (bool, String) {
        let mut running = self.running.take().unwrap();
        let pid = rustix::process::Pid::from_child(&running.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let ended = running.child.wait().unwrap();
        (ended.success(), running.log.join().unwrap())
    }

    /// A page of the admin address: status and body.
    pub(crate) async fn page(&self, path: &str) -> (u16, String) {
        let stream = TcpStream::connect(self.admin).await.unwrap();
        http(stream, &format!("GET {path} HTTP/1.1\r\n"), "").await
    }

    pub(crate) async fn json(&self, path: &str) -> Value {
        let (status, body) = self.page(path).await;
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    /// The value of a metric without labels.
    pub(crate) async fn metric(&self, name: &str) -> u64 {
        let (_, page) = self.page("/metrics").await;
        let mut lines = page.lines().filter_map(|line| line.split_once(' '));
        let (_, value) = lines.find(|(found, _)| *found == name).unwrap();
        value.parse().unwrap()
    }

    /// Asks pages until `is_right` of the one at `path`.
    pub(crate) async fn wait(&self, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
        loop {
            let value = self.json(path).await;
            if is_right(&value) {
                return value;
            }
            tokio::task::yield_now().await;
        }
    }

    /// A one-time token of the operator's socket.
    pub(crate) async fn token(&self, workload: &str) -> String {
        let body = serde_json::json!({ "namespace": "default", "workload": workload });
        let (status, answer) = Box::pin(self.operate("POST /v1/tokens", &body)).await;
        assert_eq!(status, 200, "{answer}");
        answer["token"].as_str().unwrap().to_owned()
    }

    /// Something that the operator's socket is asked for: status and answer.
    pub(crate) async fn operate(&self, request: &str, body: &Value) -> (u16, Value) {
        let path = self.state().join("operator.sock");
        let stream = UnixStream::connect(path).await.unwrap();
        let head = format!("{request} HTTP/1.1\r\ncontent-type: application/json\r\n");
        let (status, body) = http(stream, &head, &body.to_string()).await;
        (status, serde_json::from_str(&body).unwrap_or(Value::Null))
    }

    /// Has the sources read, and waits for the sidecars for so long.
    pub(crate) async fn settle(&self, timeout_ms: u64) -> Value {
        let body = serde_json::json!({ "timeoutMs": timeout_ms });
        let (status, answer) = self.operate("POST /v1/settle", &body).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if self.running.is_some() {
            let log = self.stop();
            if std::thread::panicking() {
                eprintln!("{log}");
            }
        }
    }
}

fn collect(mut stderr: ChildStderr) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut log = String::new();
        stderr.read_to_string(&mut log).unwrap();
        log
    })
}

async fn http(
    mut io: impl AsyncRead + AsyncWrite + Unpin,
    head: &str,
    body: &str,
) -> (u16, String) {
    let length = body.len();
    let rest = format!("host: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
    io.write_all(format!("{head}{rest}").as_bytes())
        .await
        .unwrap();
    let mut answer = String::new();
    io.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    assert!(!head.contains("chunked"), "{head}");
    (status, body.to_owned())
}
