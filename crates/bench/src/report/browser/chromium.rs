//! A Chromium without a window, told what to do over two pipes: its DevTools protocol, a JSON
//! message and a zero byte each. Called by the tests of the page only.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Gives up on a browser that does not answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What distributions call it.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A running browser with one open page. Dropping it ends it.
pub(super) struct Chromium {
    process: std::process::Child,
    commands: File,
    messages: Receiver<Value>,
    /// What it said unasked, since the page was opened.
    events: Vec<Value>,
    /// Of the last command.
    id: u64,
    /// Of the open page.
    session: Option<String>,
    _home: TempDir,
}

impl Chromium {
    /// `None` where there is none; with `LENO_REQUIRE_CHROMIUM` that is a failure.
    pub(super) fn start() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut files =
            std::env::split_paths(&path).flat_map(|dir| NAMES.map(|name| dir.join(name)));
        let Some(program) = files.find(|file| file.is_file()) else {
            assert!(
                std::env::var_os("LENO_REQUIRE_CHROMIUM").is_none(),
                "there is no Chromium in $PATH (Debian: apt-get install chromium)"
            );
            println!("SKIPPED: there is no Chromium");
            return None;
        };
        Some(Self::start_at(&program))
    }

    fn start_at(program: &Path) -> Self {
        let home = tempfile::tempdir().unwrap();
        let (to, from) = (home.path().join("to"), home.path().join("from"));
        let made = Command::new("mkfifo").args([&to, &from]).status().unwrap();
        assert!(made.success(), "making pipes");
        // Its ends of the pipes are its descriptors 3 and 4.
        let mut shell = Command::new("sh");
        shell
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$TO\" 4>\"$FROM\""])
            .arg(program)
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox"])
            .args(["--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"])
            .arg(format!(
                "--user-data-dir={}",
                home.path().join("home").display()
            ))
            .env("TO", &to)
            .env("FROM", &from)
            .env("HOME", home.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let process = shell.spawn().unwrap();
        // In the order in which the shell opens them.
        let commands = OpenOptions::new().write(true).open(&to).unwrap();
        let messages = listen(File::open(&from).unwrap());
        Self {
            process,
            commands,
            messages,
            events: Vec::new(),
            id: 0,
            session: None,
            _home: home,
        }
    }

    /// Opens a file in a page of its own and waits until it is there.
    pub(super) fn open(&mut self, file: &Path) {
        self.session = None;
        let target = self.call("Target.createTarget", &json!({"url": "about:blank"}));
        let target = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", &target);
        self.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Network", "Runtime", "Log"] {
            self.call(&format!("{domain}.enable"), &json!({}));
        }
        self.events.clear();
        let url = format!("file://{}", file.display());
        self.call("Page.navigate", &json!({ "url": url }));
        while self.said("Page.loadEventFired").is_empty() {
            let event = self.next();
            self.events.push(event);
        }
    }

    /// Does what `method` says; its result.
    #[track_caller]
    pub(super) fn call(&mut self, method: &str, parameters: &Value) -> Value {
        self.id += 1;
        let mut message = json!({"id": self.id, "method": method, "params": parameters});
        if let Some(session) = &self.session {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.write_all(&bytes).unwrap();
        loop {
            let mut message = self.next();
            if message["id"] == self.id {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    /// What `script` is, in the page.
    #[track_caller]
    pub(super) fn ask(&mut self, script: &str) -> Value {
        let asked = json!({"expression": script, "returnByValue": true, "awaitPromise": true});
        let mut answer = self.call("Runtime.evaluate", &asked);
        let thrown = &answer["exceptionDetails"];
        assert!(thrown.is_null(), "{script}: {thrown}");
        answer["result"]["value"].take()
    }

    /// The parameters of all events of this kind since the page was opened.
    pub(super) fn said(&self, method: &str) -> Vec<&Value> {
        let events = self.events.iter().filter(|event| event["method"] == method);
        events.map(|event| &event["params"]).collect()
    }

    /// A window of this width in CSS pixels; on paper or a screen, light or dark.
    pub(super) fn look(&mut self, width: u32, media: &str, scheme: &str) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let feature = json!({"name": "prefers-color-scheme", "value": scheme});
        let media = json!({"media": media, "features": [feature]});
        self.call("Emulation.setEmulatedMedia", &media);
    }

    /// A picture of the whole page, kept in the folder `LENO_SCREENSHOTS` if there is one.
    pub(super) fn picture(&mut self, name: &str) {
        let Some(folder) = std::env::var_os("LENO_SCREENSHOTS") else {
            return;
        };
        let whole = json!({"captureBeyondViewport": true});
        let picture = self.call("Page.captureScreenshot", &whole);
        let bytes = BASE64_STANDARD
            .decode(picture["data"].as_str().unwrap())
            .unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    fn next(&self) -> Value {
        let message = self.messages.recv_timeout(PATIENCE);
        message.expect("Chromium has ended, or does not answer")
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn listen(from: File) -> Receiver<Value> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for message in BufReader::new(from).split(0).map_while(Result::ok) {
            let message = serde_json::from_slice(&message).expect("a message of JSON");
            if sender.send(message).is_err() {
                break;
            }
        }
    });
    receiver
}
