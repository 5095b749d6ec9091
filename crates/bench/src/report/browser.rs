//! The page in a real browser: that it asks no network, sorts, shows values, fits on a telephone
//! and on paper, and can be read in the light, in the dark and by those who do not see it.

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::write;
use crate::results::{Experiment, Run, sample};
use chromium::Chromium;

mod chromium;

const QUESTIONS: &str = include_str!("browser/look.js");

/// Pages of experiments, by name.
fn runs() -> Vec<(&'static str, Run)> {
    let mut cpu = sample::full_run();
    cpu.settings.experiment = Experiment::Cpu;
    vec![
        ("latency", sample::full_run()),
        ("cpu", cpu),
        ("throughput", sample::throughput_run()),
    ]
}

/// Each page once it is open; nothing where there is no browser.
fn each_page(mut check: impl FnMut(&str, &mut Chromium)) {
    let Some(mut chromium) = Chromium::start() else {
        return;
    };
    for (name, run) in runs() {
        let (_dir, page) = written(&run);
        chromium.open(&page);
        chromium.look(1280, "screen", "light");
        chromium.ask(QUESTIONS);
        check(name, &mut chromium);
    }
}

fn written(run: &Run) -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    write(run, dir.path()).unwrap();
    let page = dir.path().join("report.html");
    (dir, page)
}

fn texts(value: &Value) -> Vec<&str> {
    let values = value.as_array().unwrap().iter();
    values.map(|one| one.as_str().unwrap()).collect()
}

#[test]
fn a_page_asks_no_network_and_nothing_goes_wrong_in_it() {
    each_page(|name, chromium| {
        chromium.picture(&format!("{name}-light"));
        let asked = chromium.said("Network.requestWillBeSent");
        let urls = asked
            .iter()
            .map(|it| it["request"]["url"].as_str().unwrap());
        let others = |url: &&str| !url.starts_with("data:") && !url.ends_with("/report.html");
        assert_eq!(urls.filter(others).collect::<Vec<_>>(), [""; 0], "{name}");
        assert!(
            chromium.said("Runtime.exceptionThrown").is_empty(),
            "{name}"
        );
        assert!(chromium.said("Log.entryAdded").is_empty(), "{name}");
    });
}

#[test]
fn a_click_on_a_title_sorts_and_another_turns_it_round() {
    each_page(|name, chromium| {
        let title = "document.querySelectorAll('table.full')[0].tHead.rows[0].cells[2]";
        let mut seen = Vec::new();
        for order in ["ascending", "descending"] {
            chromium.ask(&format!("{title}.querySelector('button').click()"));
            assert_eq!(chromium.ask(&format!("{title}.ariaSort")), order, "{name}");
            let values = chromium.ask("column(0, 2)");
            let values = values.as_array().unwrap().iter().filter_map(Value::as_f64);
            seen.push(values.collect::<Vec<f64>>());
        }
        assert!(seen[0].len() > 1, "{name}");
        assert!(seen[0].is_sorted(), "{name}: {:?}", seen[0]);
        seen[1].reverse();
        assert!(seen[1].is_sorted(), "{name}: {:?}", seen[1]);
    });
}

#[test]
fn values_stand_beside_the_pointer_and_follow_the_keys() {
    each_page(|name, chromium| {
        let spot = chromium.ask(
            "(() => { const spot = document.querySelector('svg.figure .spot'); \
             spot.scrollIntoView({block: 'center'}); const box = spot.getBoundingClientRect(); \
             return {x: box.x + box.width / 2, y: box.y + box.height / 2, \
             value: spot.dataset.value}; })()",
        );
        let hidden = "document.getElementById('tip').hidden";
        assert_eq!(chromium.ask(hidden), true, "{name}");
        let pointer = json!({"type": "mouseMoved", "x": spot["x"], "y": spot["y"]});
        chromium.call("Input.dispatchMouseEvent", &pointer);
        let tip = "document.getElementById('tip').textContent";
        let (shown, value) = (chromium.ask(tip), spot["value"].as_str().unwrap());
        assert!(
            shown.as_str().unwrap().contains(value),
            "{name}: {shown}, not {value}"
        );
        chromium.picture(&format!("{name}-value"));
        let away = json!({"type": "mouseMoved", "x": 1, "y": 1});
        chromium.call("Input.dispatchMouseEvent", &away);
        assert_eq!(chromium.ask(hidden), true, "{name}");
        chromium.ask("document.querySelector('svg.figure[tabindex]').focus()");
        assert_eq!(chromium.ask(hidden), false, "{name}");
        for kind in ["keyDown", "keyUp"] {
            let key = json!({"type": kind, "key": "Escape", "code": "Escape"});
            chromium.call("Input.dispatchKeyEvent", &key);
        }
        assert_eq!(chromium.ask(hidden), true, "{name}");
    });
}

#[test]
fn every_text_can_be_read_in_the_light_and_in_the_dark() {
    each_page(|name, chromium| {
        let mut grounds = Vec::new();
        for scheme in ["light", "dark"] {
            chromium.look(1280, "screen", scheme);
            let faint = chromium.ask("faint()");
            assert_eq!(texts(&faint), [""; 0], "{name}, {scheme}");
            let ground = chromium.ask("luminance(ground(document.querySelector('main')))");
            grounds.push(ground.as_f64().unwrap());
        }
        assert!(grounds[0] > 0.7 && grounds[1] < 0.1, "{name}: {grounds:?}");
        chromium.picture(&format!("{name}-dark"));
    });
}

#[test]
fn a_page_fits_on_a_telephone_and_on_paper() {
    each_page(|name, chromium| {
        for width in [360, 768] {
            chromium.look(width, "screen", "light");
            let root = "document.documentElement";
            let beyond = chromium.ask(&format!("{root}.scrollWidth - {root}.clientWidth"));
            assert_eq!(beyond, 0, "{name}, {width} wide");
            chromium.picture(&format!("{name}-{width}"));
        }
        chromium.look(794, "print", "dark");
        let nav = "getComputedStyle(document.querySelector('nav')).display";
        assert_eq!(chromium.ask(nav), "none", "{name}");
        let ground = chromium.ask("luminance(ground(document.querySelector('main')))");
        assert!(
            ground.as_f64().unwrap() > 0.9,
            "{name}: paper is white, not {ground}"
        );
        assert_eq!(texts(&chromium.ask("faint()")), [""; 0], "{name}");
        chromium.picture(&format!("{name}-print"));
        let printed = chromium.call("Page.printToPDF", &json!({}));
        // What every PDF begins with, in base64.
        assert!(
            printed["data"].as_str().unwrap().starts_with("JVBERi0"),
            "{name}"
        );
    });
}

#[test]
fn those_who_do_not_see_a_page_are_told_what_is_on_it() {
    each_page(|name, chromium| {
        chromium.call("Accessibility.enable", &json!({}));
        let tree = chromium.call("Accessibility.getFullAXTree", &json!({}));
        let nodes = tree["nodes"].as_array().unwrap().iter();
        let nodes: Vec<&Value> = nodes.filter(|node| node["ignored"] == false).collect();
        let names = |role: &str| -> Vec<&str> {
            let names = nodes.iter().filter(|node| node["role"]["value"] == role);
            names
                .map(|node| node["name"]["value"].as_str().unwrap_or_default())
                .collect()
        };
        // A figure is a group.
        for role in ["group", "button", "region"] {
            let names = names(role);
            assert!(!names.is_empty(), "{name}: no {role}");
            assert!(
                !names.contains(&""),
                "{name}: a {role} without a name: {names:?}"
            );
        }
        let levels = chromium.ask(
            "[...document.querySelectorAll('h1, h2, h3, h4')].map((it) => Number(it.tagName[1]))",
        );
        let levels: Vec<u64> = levels
            .as_array()
            .unwrap()
            .iter()
            .filter_map(Value::as_u64)
            .collect();
        assert_eq!(
            levels.iter().filter(|&&level| level == 1).count(),
            1,
            "{name}"
        );
        let skips = levels.windows(2).any(|pair| pair[1] > pair[0] + 1);
        assert!(!skips, "{name}: a heading is skipped: {levels:?}");
        let captions = "[...document.querySelectorAll('table.full')].every((it) => it.caption)";
        assert_eq!(chromium.ask(captions), true, "{name}");
    });
}
