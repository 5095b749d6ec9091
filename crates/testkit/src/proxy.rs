//! `leno-proxy` as a process: started from a configuration, watched from outside, ended by pid.
//! Used by the behaviour tests. `LENO_PROXY` names another binary, `LENO_PROXY_RUNNER` a command
//! to run it under, such as an emulator.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::RawClient;
use crate::http::Message;
use crate::metrics::Scrape;
use crate::wait::{DEADLINE, eventually, until};

/// A running proxy; it is killed when dropped.
pub struct ProxyProcess {
    child: Child,
    dir: TempDir,
    stdout: Arc<Mutex<Vec<String>>>,
    ready: Ready,
}

/// A proxy that was started, and may not be ready yet.
pub struct Launched {
    proxy: ProxyProcess,
    first: mpsc::Receiver<String>,
    /// The ready line, if it has come.
    line: Option<String>,
}

/// What the ready line said.
#[derive(Debug, Clone, Default)]
struct Ready {
    admin: Option<SocketAddr>,
    metrics: Option<SocketAddr>,
    names: Option<SocketAddr>,
    listeners: HashMap<String, SocketAddr>,
}

/// How a proxy ended.
#[derive(Debug)]
pub struct Exit {
    /// What the process returned.
    pub status: ExitStatus,
    /// Its log.
    pub stderr: String,
    /// From the signal to the end.
    pub took: Duration,
}

impl ProxyProcess {
    /// Starts `binary` with a configuration and waits until it is ready.
    ///
    /// # Panics
    /// If it does not get ready; the message holds its log.
    #[track_caller]
    #[must_use]
    pub fn start(binary: &str, yaml: &str) -> Self {
        Self::start_with(binary, yaml, &[])
    }

    /// As [`ProxyProcess::start`], with further arguments.
    ///
    /// # Panics
    /// If it does not get ready; the message holds its log.
    #[track_caller]
    #[must_use]
    pub fn start_with(binary: &str, yaml: &str, arguments: &[&str]) -> Self {
        Self::try_start(binary, yaml, arguments).unwrap_or_else(|exit| {
            panic!(
                "leno-proxy ended instead of starting: {}\n{}",
                exit.status, exit.stderr
            )
        })
    }

    /// As [`ProxyProcess::start_with`], for configurations that are expected to be refused.
    ///
    /// # Errors
    /// How it ended.
    ///
    /// # Panics
    /// If it neither gets ready nor ends.
    #[track_caller]
    pub fn try_start(binary: &str, yaml: &str, arguments: &[&str]) -> Result<Self, Exit> {
        Self::launch(binary, yaml, arguments).ready()
    }

    /// Starts `binary` and waits for nothing.
    ///
    /// # Panics
    /// If it cannot be run.
    #[track_caller]
    #[must_use]
    pub fn launch(binary: &str, yaml: &str, arguments: &[&str]) -> Launched {
        let dir = tempfile::tempdir().expect("a temporary directory can be made");
        let config = dir.path().join("proxy.yaml");
        std::fs::write(&config, yaml).expect("the configuration can be written");
        let log = std::fs::File::create(dir.path().join("stderr")).expect("a log can be made");
        let mut child = command(binary)
            .arg("--config")
            .arg(&config)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot run {binary}: {error}"));
        let (stdout, first) = follow(child.stdout.take().expect("stdout is piped"));
        let proxy = Self {
            child,
            dir,
            stdout,
            ready: Ready::default(),
        };
        Launched {
            proxy,
            first,
            line: None,
        }
    }

    /// Where a listener is bound.
    ///
    /// # Panics
    /// If the ready line did not name it.
    #[track_caller]
    #[must_use]
    pub fn listener(&self, name: &str) -> SocketAddr {
        *self
            .ready
            .listeners
            .get(name)
            .unwrap_or_else(|| panic!("no listener `{name}` is bound"))
    }

    /// Where the one listener of a [`crate::Sidecar`] is bound.
    ///
    /// # Panics
    /// If there is no listener `main`.
    #[track_caller]
    #[must_use]
    pub fn addr(&self) -> SocketAddr {
        self.listener("main")
    }

    /// Where the admin pages are.
    ///
    /// # Panics
    /// If they are off.
    #[must_use]
    pub fn admin_addr(&self) -> SocketAddr {
        self.ready.admin.expect("the admin pages are on")
    }

    /// Where metrics are.
    ///
    /// # Panics
    /// If they are off.
    #[must_use]
    pub fn metrics_addr(&self) -> SocketAddr {
        self.ready.metrics.expect("metrics are on")
    }

    /// Where names are answered, at the first address of several.
    ///
    /// # Panics
    /// If they are not.
    #[must_use]
    pub fn names_addr(&self) -> SocketAddr {
        self.ready.names.expect("names are answered")
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The directory of its configuration file.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Asks for an admin page.
    ///
    /// # Panics
    /// If it does not come.
    #[track_caller]
    #[must_use]
    pub fn admin(&self, path: &str) -> Message {
        RawClient::connect(self.admin_addr()).get(path)
    }

    /// The answer on an admin page, which is JSON.
    ///
    /// # Panics
    /// If it does not come, or is something else.
    #[track_caller]
    #[must_use]
    pub fn page(&self, path: &str) -> Value {
        let page = self.admin(path).text();
        serde_json::from_str(&page).unwrap_or_else(|error| panic!("{path}: {error}: {page}"))
    }

    /// Its metrics now.
    ///
    /// # Panics
    /// If they do not come or do not parse.
    #[track_caller]
    #[must_use]
    pub fn scrape(&self) -> Scrape {
        let page = RawClient::connect(self.metrics_addr()).get("/metrics");
        assert_eq!(page.status(), 200, "{}", page.text());
        Scrape::parse(&page.text())
    }

    /// The sum over the samples of a metric that have these labels, now.
    ///
    /// # Panics
    /// As [`ProxyProcess::scrape`].
    #[track_caller]
    #[must_use]
    pub fn metric(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.scrape().sum(name, labels)
    }

    /// Waits until a metric has a value.
    ///
    /// # Panics
    /// If it never does; the message says what it was last.
    #[track_caller]
    pub fn metric_becomes(&self, name: &str, labels: &[(&str, &str)], value: f64) {
        let started = Instant::now();
        loop {
            let now = self.metric(name, labels);
            if (now - value).abs() < 1e-9 {
                return;
            }
            let context = format!("{name}{labels:?} is {now}, expected {value}");
            assert!(started.elapsed() < DEADLINE, "{context}\n{}", self.stderr());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Makes a change (to files), asks for a reload and waits until one was accepted.
    ///
    /// # Panics
    /// If none was.
    #[track_caller]
    pub fn reload(&self, change: impl FnOnce()) {
        self.reload_with("accepted", change);
    }

    /// Makes a change (to files), asks for a reload and waits until one was rejected.
    ///
    /// # Panics
    /// If none was.
    #[track_caller]
    pub fn reload_is_rejected(&self, change: impl FnOnce()) {
        self.reload_with("rejected", change);
    }

    /// Replaces the configuration in one step and reloads it.
    ///
    /// # Panics
    /// If it is not accepted.
    #[track_caller]
    pub fn reconfigure(&self, yaml: &str) {
        self.reload(|| self.write_config(yaml));
    }

    /// Replaces the configuration file in one step, without asking for a reload.
    ///
    /// # Panics
    /// If it cannot be written.
    pub fn write_config(&self, yaml: &str) {
        let beside = self.dir.path().join("proxy.yaml.new");
        std::fs::write(&beside, yaml).expect("the configuration can be written");
        std::fs::rename(beside, self.config()).expect("the configuration can be replaced");
    }

    /// Its configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.dir.path().join("proxy.yaml")
    }

    #[track_caller]
    fn reload_with(&self, result: &str, change: impl FnOnce()) {
        let reloads = || self.metric("leno_config_reloads_total", &[("result", result)]);
        let before = reloads();
        change();
        self.signal(Signal::HUP);
        until(
            &format!("a reload is {result}; log:\n{}", self.stderr()),
            || reloads() > before,
        );
    }

    /// Open descriptors.
    ///
    /// # Panics
    /// If the process is gone.
    #[must_use]
    pub fn open_fds(&self) -> usize {
        let list = std::fs::read_dir(format!("/proc/{}/fd", self.pid()));
        list.expect("the process is there").count()
    }

    /// Proportional set size in KiB. Depends on who else runs the same program: see
    /// [`ProxyProcess::anon_kib`] for growth.
    ///
    /// # Panics
    /// If the process is gone.
    #[must_use]
    pub fn pss_kib(&self) -> u64 {
        self.rollup("Pss:")
    }

    /// Memory of its own in KiB: without what it shares with others of the same program.
    ///
    /// # Panics
    /// If the process is gone.
    #[must_use]
    pub fn anon_kib(&self) -> u64 {
        self.rollup("Pss_Anon:")
    }

    fn rollup(&self, field: &str) -> u64 {
        let rollup = std::fs::read_to_string(format!("/proc/{}/smaps_rollup", self.pid()));
        let rollup = rollup.expect("the process is there");
        let line = rollup.lines().find_map(|line| line.strip_prefix(field));
        let value = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        value.unwrap_or_else(|| panic!("smaps_rollup has no {field} line"))
    }

    /// Its log so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("stderr")).unwrap_or_default()
    }

    /// What it printed so far, without the ready line: the access log, if that goes there.
    ///
    /// # Panics
    /// If the reading thread panicked.
    #[must_use]
    pub fn stdout_lines(&self) -> Vec<String> {
        self.stdout
            .lock()
            .expect("the reading thread does not panic")
            .clone()
    }

    /// Sends a signal.
    ///
    /// # Panics
    /// If the process is gone.
    pub fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.pid()).ok().and_then(Pid::from_raw);
        kill_process(pid.expect("a process id"), signal).expect("the process is there");
    }

    /// Asks it to drain and end, and waits for that.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn terminate(self) -> Exit {
        let started = Instant::now();
        self.signal(Signal::TERM);
        self.wait(started)
    }

    /// Waits for its end.
    ///
    /// # Panics
    /// If it does not end.
    #[track_caller]
    pub fn wait(mut self, started: Instant) -> Exit {
        let status = eventually("leno-proxy ends", || {
            self.child.try_wait().expect("a child can be waited for")
        });
        Exit {
            status,
            stderr: self.stderr(),
            took: started.elapsed(),
        }
    }
}

impl Launched {
    /// Whether it has said that it is.
    #[must_use]
    pub fn is_ready(&mut self) -> bool {
        let line = &mut self.line;
        if line.is_none() {
            *line = self.first.try_recv().ok();
        }
        line.is_some()
    }

    /// Waits until it is.
    ///
    /// # Errors
    /// How it ended instead.
    ///
    /// # Panics
    /// If it neither gets ready nor ends.
    #[track_caller]
    pub fn ready(self) -> Result<ProxyProcess, Exit> {
        let mut proxy = self.proxy;
        let line = self
            .line
            .map_or_else(|| self.first.recv_timeout(DEADLINE), Ok);
        match line {
            Ok(line) => proxy.ready = Ready::parse(&line, proxy.child.id()),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(proxy.wait(Instant::now())),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                panic!(
                    "leno-proxy is not ready after {DEADLINE:?}\n{}",
                    proxy.stderr()
                )
            }
        }
        Ok(proxy)
    }

    /// Its log so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.proxy.stderr()
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> &ProxyProcess {
        &self.proxy
    }
}

impl Drop for ProxyProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!(
                "--- log of leno-proxy {} ---\n{}",
                self.pid(),
                self.stderr()
            );
        }
    }
}

impl Ready {
    fn parse(line: &str, pid: u32) -> Self {
        let ready: Value = serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("the ready line is not JSON ({error}): {line}"));
        assert_eq!(ready["event"], "ready", "{line}");
        assert_eq!(ready["pid"], pid, "{line}");
        let addr = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
        let listeners = ready["listeners"].as_object().cloned().unwrap_or_default();
        Self {
            admin: addr(&ready["admin"]),
            metrics: addr(&ready["metrics"]),
            names: addr(&ready["dns"][0]),
            listeners: listeners
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), addr(value)?)))
                .collect(),
        }
    }
}

fn command(binary: &str) -> Command {
    let binary = std::env::var_os("LENO_PROXY").unwrap_or_else(|| binary.into());
    match std::env::var("LENO_PROXY_RUNNER") {
        Ok(runner) if !runner.trim().is_empty() => {
            let mut words = runner.split_whitespace();
            let mut command = Command::new(words.next().unwrap_or_default());
            command.args(words).arg(binary);
            command
        }
        _ => Command::new(binary),
    }
}

/// The first line is given to the receiver, which is disconnected if none comes; the others are
/// kept.
fn follow(stdout: ChildStdout) -> (Arc<Mutex<Vec<String>>>, mpsc::Receiver<String>) {
    let kept = Arc::new(Mutex::new(Vec::new()));
    let (sender, receiver) = mpsc::channel();
    let lines = Arc::clone(&kept);
    thread::spawn(move || {
        let mut all = BufReader::new(stdout).lines().map_while(Result::ok);
        if let Some(first) = all.next() {
            // Nobody waits for it any more: the test has failed already.
            let _ = sender.send(first);
        }
        drop(sender);
        for line in all {
            lines
                .lock()
                .expect("tests do not panic while they hold it")
                .push(line);
        }
    });
    (kept, receiver)
}
