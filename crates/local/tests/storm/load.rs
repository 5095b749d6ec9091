//! Load from one workload, for as long as a disturbance lasts, and what became of it.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::world::{World, is_soak, until};

/// The Service that two answer for.
pub(crate) const URL: &str = "http://echo.default.svc.cluster.local/";
/// A machine that has other things to do is no reason for a failure.
const TIMEOUT: &str = "30s";

/// A way of asking.
#[derive(Clone, Copy)]
pub(crate) struct Shape<'a> {
    /// Tells those apart that go on at the same time.
    pub(crate) name: &'a str,
    pub(crate) url: &'a str,
    /// Requests in a second.
    pub(crate) rate: &'a str,
    /// Further words of the command.
    pub(crate) more: &'a [&'a str],
}

/// Requests that are being made.
pub(crate) struct Load<'w> {
    world: &'w World,
    child: Child,
    name: String,
}

impl<'w> Load<'w> {
    /// Begins to ask for `url`; comes back when there are answers.
    #[track_caller]
    pub(crate) fn begin(world: &'w World, url: &str) -> Self {
        let rate = if is_soak() { "1000" } else { "300" };
        let (name, more) = ("load", &["-c", "8"][..]);
        let load = Self::start(
            world,
            Shape {
                name,
                url,
                rate,
                more,
            },
        );
        load.pass(100);
        load
    }

    /// Begins to ask; there may be no answers yet.
    #[track_caller]
    pub(crate) fn start(world: &'w World, shape: Shape<'_>) -> Self {
        Self::start_by(world, shape, |words| world.leno("client", words))
    }

    /// Likewise, whoever it is that asks: a command of `leno` with these words.
    #[track_caller]
    pub(crate) fn start_by(
        world: &'w World,
        shape: Shape<'_>,
        leno: impl FnOnce(&[&str]) -> Command,
    ) -> Self {
        let words = ["load", shape.url, "--qps", shape.rate, "--timeout", TIMEOUT];
        let rest = ["-t", "2h", "--progress", "never", "--json", "-"];
        let [json, err] = [".json", ".err"].map(|end| world.file(&(shape.name.to_owned() + end)));
        let child = leno(&[&words, shape.more, &rest].concat())
            .stdout(File::create(json).unwrap())
            .stderr(File::create(err).unwrap())
            .spawn()
            .unwrap();
        let name = shape.name.to_owned();
        Self { world, child, name }
    }

    fn file(&self, end: &str) -> PathBuf {
        self.world.file(&(self.name.clone() + end))
    }

    fn made(&self) -> u64 {
        self.world.sent("client")
    }

    /// Waits until so many more requests were made.
    #[track_caller]
    pub(crate) fn pass(&self, requests: u64) {
        let goal = self.made() + requests;
        let said = || fs::read_to_string(self.file(".err")).unwrap();
        until(|| (self.made() >= goal).then_some(()), said);
    }

    /// Ends; what became of it.
    #[track_caller]
    pub(crate) fn end(mut self) -> Value {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::INT).unwrap();
        self.child.wait().unwrap();
        let said = fs::read_to_string(self.file(".json")).unwrap();
        serde_json::from_str(&said).unwrap_or_else(|error| {
            let err = fs::read_to_string(self.file(".err")).unwrap();
            panic!("{error}: {said:?} {err:?}")
        })
    }

    /// Ends; every request that was sent was answered as it should be.
    #[track_caller]
    pub(crate) fn assert_nothing_lost(self) {
        let name = self.name.clone();
        let said = self.end();
        let count = &said["DurationHistogram"]["Count"];
        let details = &said["Leno"];
        let codes = &said["RetCodes"];
        // An echo of bytes has no status.
        let is_good = [json!({"200": count}), json!({"OK": count})].contains(codes);
        assert!(
            is_good,
            "{name}: {codes}, failures: {}",
            details["Failures"]
        );
        // What was never sent was not lost: the machine had no time for it.
        assert_eq!(details["Failures"], json!({}), "{name}");
        assert!(count.as_u64() >= Some(20), "{name}: {count}");
        println!(
            "{name}: {count} requests, none failed, {} not sent; slowest {} s",
            details["Unfinished"], said["DurationHistogram"]["Max"]
        );
    }
}

impl Drop for Load<'_> {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
