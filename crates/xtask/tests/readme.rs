//! What the documents say works: the README's sidecar pair, and the control plane's sidecar that is
//! told, are run as written, with a temporary folder for their files and free ports for their
//! addresses, and help texts are compared.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::Value;
use xtask::{command, dist, outputs, repository};

const FOLDER: &str = "examples/pair";

#[test]
fn the_sidecar_pair_of_the_readme_carries_a_request() {
    let root = repository::root();
    let mut world = World::new(&root);
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let answers: Vec<_> = commands(&readme)
        .iter()
        .filter_map(|line| world.run(line))
        .collect();
    let [echo, metrics] = answers.as_slice() else {
        panic!("{} requests", answers.len())
    };
    assert!(echo.starts_with("HTTP/1.1 200 "), "{echo}");
    assert_eq!(echo.split_once("\r\n\r\n").unwrap().1.len(), 16, "{echo}");
    assert!(metrics.contains("\nleno_requests_total{"), "{metrics}");
}

#[test]
fn the_sidecar_of_the_control_planes_page_is_told() {
    let root = repository::root();
    let page = fs::read_to_string(root.join("docs/control-plane.md")).unwrap();
    let page = section(&page, "Running it by hand");
    let Ok(_) = Command::new("curl").arg("--version").output() else {
        println!("skipped: there is no curl");
        return;
    };
    let mut world = World::new(&root);
    fs::create_dir_all(world.folder.path().join("examples/hello")).unwrap();
    let mesh = "examples/hello/mesh.yaml";
    fs::copy(root.join(mesh), world.folder.path().join(mesh)).unwrap();
    let [control, token, sidecar] = shell(page)[..] else {
        panic!("another number of blocks")
    };
    world.begin_control(control);
    assert!(world.shell(token).is_empty(), "it goes to a file");
    let (_, file) = page.split_once("```yaml\n").unwrap();
    let (file, _) = file.split_once("```").unwrap();
    let mut file = world.with_addresses(file);
    for port in ["127.0.0.1:15000", "127.0.0.1:15010"] {
        file = file.replace(port, "127.0.0.1:0");
    }
    fs::write(world.folder.path().join("curl.yaml"), file).unwrap();
    let (start, ask) = sidecar.split_once(" &\n").unwrap();
    world.spawn(start);
    // Until it is there; what is told is for other tests, and its ports may be taken.
    while !world.shell(ask).contains("\"workload\":\"default/curl\"") {}
}

#[test]
fn the_help_texts_in_the_documents_are_fresh() {
    let root = repository::root();
    let stale = outputs::stale(&root, &build(&root), outputs::is_help).unwrap();
    let paths: Vec<_> = stale.iter().map(|document| &document.path).collect();
    assert!(paths.is_empty(), "run `cargo xtask outputs`: {paths:?}");
}

/// Builds the programs, which is quick when they are there, and says where they are.
fn build(root: &Path) -> PathBuf {
    let mut cargo = command::cargo(root);
    command::run(cargo.args([
        "build",
        "--locked",
        "--package",
        "cli",
        "--package",
        "control",
        "--package",
        "proxy",
    ]))
    .unwrap();
    dist::target_folder(root).join("debug")
}

/// The lines of the shell blocks of the section about the pair.
fn commands(readme: &str) -> Vec<&str> {
    let blocks = shell(section(readme, "A sidecar pair by hand"));
    blocks.into_iter().flat_map(str::lines).collect()
}

/// What a page has under a heading.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, section) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    section.split_once("\n## ").unwrap().0
}

/// Its shell blocks.
fn shell(section: &str) -> Vec<&str> {
    let blocks = section.split("```sh\n").skip(1);
    blocks
        .map(|block| block.split_once("```").unwrap().0)
        .collect()
}

struct World {
    programs: PathBuf,
    folder: tempfile::TempDir,
    running: Vec<Child>,
    /// Addresses as the documents have them, and as they really are.
    addresses: BTreeMap<String, String>,
}

impl World {
    fn new(root: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["server.yaml", "client.yaml"] {
            fs::copy(root.join(FOLDER).join(name), folder.path().join(name)).unwrap();
        }
        let programs = build(root);
        Self {
            programs,
            folder,
            running: Vec::new(),
            addresses: BTreeMap::new(),
        }
    }

    /// Runs one line; a request gives its whole answer.
    fn run(&mut self, line: &str) -> Option<String> {
        let line = line.replace(FOLDER, &self.folder.path().display().to_string());
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["curl", rest @ ..] => return Some(self.request(rest)),
            [program, args @ .., "&"] => self.start(program, args),
            [program, args @ ..] => {
                command::run(Command::new(self.programs.join(program)).args(args)).unwrap();
            }
            [] => {}
        }
        None
    }

    fn start(&mut self, program: &str, args: &[&str]) {
        let wanted = args.windows(2).find_map(|pair| match pair {
            ["--config", file] => Some(self.free_ports(Path::new(file))),
            ["--port", port] => Some(vec![("address".to_owned(), format!("127.0.0.1:{port}"))]),
            _ => None,
        });
        let is_port = |arg: &str| arg.parse::<u16>().is_ok();
        let args = args.iter().map(|arg| if is_port(arg) { "0" } else { arg });
        let mut command = Command::new(self.programs.join(program));
        let mut child = command.args(args).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        self.running.push(child);
        let ready: Value = serde_json::from_str(&line).unwrap();
        for (name, address) in wanted.unwrap() {
            let bound = [&ready[&name], &ready["listeners"][&name]]
                .into_iter()
                .find_map(Value::as_str);
            self.addresses
                .insert(address, bound.expect("every address is printed").to_owned());
        }
    }

    /// Writes what is known into a configuration and port 0 where it binds; gives the names and
    /// former addresses of the latter.
    fn free_ports(&self, file: &Path) -> Vec<(String, String)> {
        let (mut text, mut wanted, mut name) = (String::new(), Vec::new(), String::new());
        for line in fs::read_to_string(file).unwrap().lines() {
            let line = line.split(" #").next().unwrap();
            let (key, value) = line.split_once(": ").unwrap_or((line, ""));
            match key.trim_start_matches(['-', ' ']) {
                "name" => name = value.to_owned(),
                "admin" | "metrics" => wanted.push((key.to_owned(), value.to_owned())),
                "address" if !key.contains('-') => wanted.push((name.clone(), value.to_owned())),
                _ => {}
            }
            let line = match self.addresses.get(value) {
                Some(known) => line.replace(value, known),
                None if is_address(value) => line.replace(value, "127.0.0.1:0"),
                None => line.to_owned(),
            };
            text.push_str(&line);
            text.push('\n');
        }
        fs::write(file, text).unwrap();
        wanted
    }

    /// Starts the control plane on free ports, and learns which.
    fn begin_control(&mut self, line: &str) {
        let line = line.trim_end().trim_end_matches('&');
        let listen = "127.0.0.1:15128";
        let line = line.replace(listen, "127.0.0.1:0 --admin 127.0.0.1:0");
        let mut stdout = BufReader::new(self.spawn(&line));
        let mut ready = String::new();
        stdout.read_line(&mut ready).unwrap();
        let ready: Value = serde_json::from_str(&ready).unwrap();
        for (address, name) in [(listen, "xds"), ("127.0.0.1:15129", "admin")] {
            let bound = ready[name].as_str().unwrap().to_owned();
            self.addresses.insert(address.to_owned(), bound);
        }
    }

    /// Starts a program of ours in the folder.
    fn spawn(&mut self, line: &str) -> ChildStdout {
        let (program, args) = line.trim().split_once(' ').unwrap();
        let mut command = Command::new(self.programs.join(program));
        let command = command.args(args.split_whitespace());
        let command = command.current_dir(self.folder.path());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        self.running.push(child);
        stdout
    }

    /// What a line prints that a shell runs in the folder.
    fn shell(&self, line: &str) -> String {
        let mut command = Command::new("sh");
        let command = command.args(["-euc", &self.with_addresses(line)]);
        let output = command.current_dir(self.folder.path()).output().unwrap();
        assert!(output.status.success(), "{line}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn with_addresses(&self, text: &str) -> String {
        let known = self.addresses.iter();
        known.fold(text.to_owned(), |text, (address, bound)| {
            text.replace(address, bound)
        })
    }

    /// Asks again until there is what it is searched for: a figure may come after the answer that
    /// it counts.
    fn request(&self, words: &[&str]) -> String {
        let pattern = words.iter().find_map(|word| word.strip_prefix('^'));
        let is_there = |answer: &String| {
            pattern.is_none_or(|start| answer.lines().any(|line| line.starts_with(start)))
        };
        let mut answers = (0..1000).map(|_| self.ask(words));
        answers.find(is_there).expect("it is searched for in vain")
    }

    fn ask(&self, words: &[&str]) -> String {
        let url = words
            .iter()
            .find_map(|word| word.trim_matches('\'').strip_prefix("http://"));
        let (address, path) = url.unwrap().split_once('/').unwrap();
        let mut stream = TcpStream::connect(&self.addresses[address]).unwrap();
        let head = format!("GET /{path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for World {
    fn drop(&mut self) {
        for child in &mut self.running {
            // It may have ended by itself, which the test has said already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn is_address(word: &str) -> bool {
    word.parse::<std::net::SocketAddr>().is_ok()
}
